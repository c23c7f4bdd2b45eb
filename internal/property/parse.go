package property

import (
	"bytes"

	"github.com/magiconair/properties"
)

// Parse reads a properties file as Java's Properties do: NAME=VALUE, NAME: VALUE or NAME VALUE, comments after '#' or '!', lines that go on behind a backslash, \uXXXX. A line ends with LF, CR
// or both. Nothing is put in for ${...}.
func Parse(text []byte) (map[string]string, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, err
	}
	return p.Map(), nil
}
