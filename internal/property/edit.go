package property

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Edit returns the text of a properties file, in the syntax of Java's, with properties set. A property that the text has is replaced where it stands; where it stands several times, the last
// one, which is the one that counts. Others are appended, sorted by name. Everything else stays as it is, comments and the order of lines too. Values are written in ASCII: Java reads such
// files as ISO 8859-1.
func Edit(text []byte, set map[string]string) []byte {
	lines := logicalLines(text)
	last := map[string]int{}
	for i, line := range lines {
		if name, ok := lineName(line); ok {
			last[name] = i
		}
	}
	var added []byte
	for _, name := range slices.Sorted(maps.Keys(set)) {
		line := escape(name, true) + "=" + escape(set[name], false) + "\n"
		if i, ok := last[name]; ok {
			if bytes.HasSuffix(lines[i], []byte("\r\n")) {
				line = line[:len(line)-1] + "\r\n"
			}
			lines[i] = []byte(line)
		} else {
			added = append(added, line...)
		}
	}
	edited := bytes.Join(lines, nil)
	if n := len(edited); n > 0 && len(added) > 0 && edited[n-1] != '\n' {
		edited = append(edited, '\n')
	}
	return append(edited, added...)
}

// logicalLines splits a text into its lines, each with its end; a line that a backslash continues is one with the next.
func logicalLines(text []byte) (lines [][]byte) {
	goesOn := false
	for line := range bytes.Lines(text) {
		if goesOn {
			lines[len(lines)-1] = append(slices.Clip(lines[len(lines)-1]), line...)
		} else {
			lines = append(lines, line)
		}
		if _, ok := lineName(lines[len(lines)-1]); !ok && !goesOn {
			continue // a comment ends with its line
		}
		body := bytes.TrimRight(line, "\r\n")
		goesOn = (len(body)-len(bytes.TrimRight(body, `\`)))%2 == 1
	}
	return lines
}

const blanks = " \t\f"

// continued is where a line goes on in the next one.
var continued = regexp.MustCompile(`\\\r?\n[ \t\f]*`)

// lineName returns the name of the property in a line, if there is one.
func lineName(line []byte) (name string, ok bool) {
	line = bytes.TrimRight(bytes.TrimLeft(continued.ReplaceAll(line, nil), blanks), "\r\n")
	if len(line) == 0 || line[0] == '#' || line[0] == '!' {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(line) && !strings.ContainsRune("=:"+blanks, rune(line[i])); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			i++
		}
		b.WriteByte(line[i])
	}
	return b.String(), true
}

// escape writes a name or a value as it stands in such a file.
func escape(s string, isName bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\\' || r == ' ' && (i == 0 || isName) || isName && strings.ContainsRune("=:#!", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r > '~' && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
