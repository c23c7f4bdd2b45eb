package acl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is a fault of a file. Its text has no secret key.
type Error struct {
	Path string // empty in what Parse returns
	Line int    // 0: unknown
	Text string
}

func (e *Error) Error() string {
	at := e.Path
	if e.Line > 0 {
		at = strings.TrimPrefix(at+":"+strconv.Itoa(e.Line), ":")
	}
	return fmt.Sprintf("access rules %s: %s", at, e.Text)
}

// Bounds of a file. The keys' is RocketMQ's.
const (
	maxFileBytes = 16 << 20
	minKeyBytes  = 7
)

// Load reads the rules of a file. Errors: *Error; of the file system.
func Load(path string) (*Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	r, err := Parse(data)
	var e *Error
	if errors.As(err, &e) {
		e.Path = path
	}
	return r, err
}

// yamlLine finds the line in an error of the parser, whose text may quote the file and is left out from there on.
var yamlLine = regexp.MustCompile("^yaml: (?:line ([0-9]+): )?([^'`\"]*)")

// Parse reads rules in the form of RocketMQ's plain_acl.yml. What it does not know it refuses: a name that is misspelt must not open anything. Errors: *Error.
func Parse(data []byte) (*Rules, error) {
	if len(data) > maxFileBytes {
		return nil, &Error{Text: fmt.Sprintf("more than %d bytes", maxFileBytes)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Error{Text: "the file is empty"}
	case err != nil:
		m := yamlLine.FindStringSubmatch(err.Error())
		if m == nil {
			return nil, &Error{Text: "no YAML"}
		}
		line, _ := strconv.Atoi(m[1]) // 0 where there is none
		return nil, &Error{Line: line, Text: "no YAML: " + strings.TrimSpace(m[2])}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{Text: "more than one document, or no YAML behind the first"}
	}
	r := &Rules{accounts: map[string]*account{}}
	if len(doc.Content) == 0 {
		return nil, &Error{Text: "the file is empty"}
	}
	err := fields(doc.Content[0], map[string]func(*yaml.Node) error{
		"globalWhiteRemoteAddresses": list(func(n *yaml.Node) error { return addTo(&r.white, n) }),
		"accounts":                   list(r.addAccount),
		"dataVersion":                func(*yaml.Node) error { return nil }, // of updateAclConfig
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func fault(n *yaml.Node, format string, args ...any) error {
	return &Error{Line: n.Line, Text: fmt.Sprintf(format, args...)}
}

// fields has each field of a mapping read by its function.
func fields(n *yaml.Node, read map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return fault(n, "want fields, NAME: VALUE")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		f, ok := read[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !ok:
			return fault(k, "a field that is not known here; want one of %s", strings.Join(sortedKeys(read), ", "))
		case seen[k.Value]:
			return fault(k, "%s is there twice", k.Value)
		}
		seen[k.Value] = true
		if err := f(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(m map[string]func(*yaml.Node) error) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list reads each element of a sequence; no value is an empty one.
func list(f func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if isNull(n) {
			return nil
		}
		if n.Kind != yaml.SequenceNode {
			return fault(n, "want a list, each line with a dash")
		}
		for _, one := range n.Content {
			if err := f(one); err != nil {
				return err
			}
		}
		return nil
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// text reads a scalar; no value is "".
func text(n *yaml.Node) (string, error) {
	if isNull(n) {
		return "", nil
	}
	if n.Kind != yaml.ScalarNode {
		return "", fault(n, "want one value")
	}
	return strings.TrimSpace(n.Value), nil
}

// addTo takes up addresses.
func addTo(a *addresses, n *yaml.Node) error {
	s, err := text(n)
	if err != nil {
		return err
	}
	if err := a.add(s); err != nil {
		return fault(n, "%v", err)
	}
	return nil
}

// addAccount reads an element of accounts.
func (r *Rules) addAccount(n *yaml.Node) error {
	a := &account{topics: map[string]Permission{}, groups: map[string]Permission{}}
	into := func(p *string) func(*yaml.Node) error {
		return func(n *yaml.Node) (err error) {
			*p, err = text(n)
			return err
		}
	}
	permission := func(p *Permission) func(*yaml.Node) error {
		return func(n *yaml.Node) error {
			s, err := text(n)
			if err != nil || s == "" {
				return err
			}
			*p, err = parsePermission(n, s)
			return err
		}
	}
	err := fields(n, map[string]func(*yaml.Node) error{
		"accessKey": into(&a.accessKey), "secretKey": into(&a.secretKey),
		"whiteRemoteAddress": func(n *yaml.Node) error { return addTo(&a.white, n) },
		"admin": func(n *yaml.Node) error {
			s, err := text(n)
			a.admin = strings.EqualFold(s, "true")
			if err == nil && s != "" && !a.admin && !strings.EqualFold(s, "false") {
				return fault(n, "admin is neither true nor false")
			}
			return err
		},
		"defaultTopicPerm": permission(&a.topic), "defaultGroupPerm": permission(&a.group),
		"topicPerms": list(func(n *yaml.Node) error { return addPermission(a.topics, n) }),
		"groupPerms": list(func(n *yaml.Node) error { return addPermission(a.groups, n) }),
	})
	switch {
	case err != nil:
		return err
	case len(a.accessKey) < minKeyBytes:
		return fault(n, "accessKey is missing or has less than %d bytes", minKeyBytes)
	case len(a.secretKey) < minKeyBytes:
		return fault(n, "secretKey is missing or has less than %d bytes", minKeyBytes)
	case r.accounts[a.accessKey] != nil:
		return fault(n, "the accessKey of this account is there twice")
	}
	r.accounts[a.accessKey] = a
	return nil
}

// addPermission reads NAME=PERMISSION.
func addPermission(m map[string]Permission, n *yaml.Node) error {
	s, err := text(n)
	if err != nil {
		return err
	}
	name, value, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		return fault(n, "want NAME=PERMISSION, as topicA=PUB|SUB")
	}
	if _, twice := m[name]; twice {
		return fault(n, "%s is there twice", name)
	}
	m[name], err = parsePermission(n, value)
	return err
}

func parsePermission(n *yaml.Node, s string) (Permission, error) {
	switch strings.Join(strings.Fields(s), "") {
	case "DENY":
		return deny, nil
	case "PUB":
		return Pub, nil
	case "SUB":
		return Sub, nil
	case "PUB|SUB", "SUB|PUB":
		return Pub | Sub, nil
	}
	return deny, fault(n, "want one of DENY, PUB, SUB and PUB|SUB")
}
