package meta

import (
	"bytes"
	"encoding/json"
)

// extra holds the members of an object that its type does not name, so that what another version wrote survives.
type extra map[string]json.RawMessage

// decodeWithExtra decodes b into known, a pointer to a struct, and returns what known has no member for.
func decodeWithExtra(b []byte, known any) (extra, error) {
	if err := json.Unmarshal(b, known); err != nil {
		return nil, err
	}
	var all extra
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	own, err := members(known)
	if err != nil {
		return nil, err
	}
	for name := range own {
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// encodeWithExtra encodes known and x as one object, members in alphabetical order, as 5.5.0 has them.
func encodeWithExtra(known any, x extra) ([]byte, error) {
	own, err := members(known)
	if err != nil {
		return nil, err
	}
	for name, value := range x {
		if _, ok := own[name]; !ok {
			own[name] = value
		}
	}
	return plain(own)
}

func members(v any) (extra, error) {
	b, err := plain(v)
	if err != nil {
		return nil, err
	}
	var m extra
	return m, json.Unmarshal(b, &m)
}

// plain encodes without escapes for HTML: tools show these texts.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// indented encodes as files are written, with tabs.
func indented(v any) ([]byte, error) {
	b, err := plain(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "\t"); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
