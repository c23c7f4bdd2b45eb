package main

import (
	"encoding/json"
	"io"
)

// printJSON writes v as one indented JSON document and a newline. Topic names may hold '<' or '&'; they stay readable.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
