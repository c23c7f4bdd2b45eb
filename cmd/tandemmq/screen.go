package main

import (
	"fmt"
	"io"
	"strings"
)

// screen shows a text in the place of the one before it, on a terminal. Lines that are longer than the terminal is wide are cut there, so that the number of lines is known.
type screen struct {
	w     io.Writer
	lines int // of the text that is there
	last  string
}

// show draws text, whose lines end with a newline each, if it is another one.
func (s *screen) show(text string) error {
	if text == s.last {
		return nil
	}
	up := "\r"
	if s.lines > 0 {
		up = fmt.Sprintf("\x1b[%dA\r", s.lines)
	}
	s.lines, s.last = strings.Count(text, "\n"), text
	_, err := io.WriteString(s.w, up+"\x1b[J\x1b[?7l"+text+"\x1b[?7h") // at once: an interruption leaves the terminal as it was
	return err
}
