// Package htmltest holds HTML reports against what they have to be, in tests of packages that write some.
package htmltest

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// elements that a report may have; what runs or loads something is not among them.
var elements = strings.Fields(`html head meta title style body header main footer nav section h1 h2 h3 p a ul li dl dt dd div span details summary
	table thead tbody tr th td figure figcaption svg g path text`)

// Check fails the test unless page is well-formed, loads nothing, runs nothing, and links to nothing but itself. It returns the text of it.
func Check(t *testing.T, page string) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page)) // stricter than HTML is
	d.Strict = true
	var text strings.Builder
	var open []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			open = append(open, x.Name.Local)
			if !slices.Contains(elements, x.Name.Local) {
				t.Errorf("element %s", x.Name.Local)
			}
			for _, a := range x.Attr {
				name, value := strings.ToLower(a.Name.Local), strings.ToLower(a.Value)
				switch {
				case name == "src" || strings.HasPrefix(name, "on"):
					t.Errorf("attribute %s of %s", name, x.Name.Local)
				case name == "href" && !strings.HasPrefix(value, "#"):
					t.Errorf("link to %s", a.Value)
				case name == "style" && strings.Contains(value, "url("):
					t.Errorf("style %s", a.Value)
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			in := open[max(len(open)-1, 0):]
			if len(in) == 1 && in[0] == "style" {
				if s := string(x); strings.Contains(s, "url(") || strings.Contains(s, "@import") {
					t.Error("the style sheet loads something")
				}
				continue
			}
			text.Write(x)
		}
	}
	if strings.Contains(page, "<?xml") || strings.Contains(page, "xmlns") {
		t.Error("a drawing has kept its own head")
	}
	return text.String()
}
