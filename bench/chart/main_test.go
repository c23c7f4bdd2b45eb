package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const raw = `{"row":"machine"}
{"row":"queues-file-10","queues":10,"figures":{"appendMiB":9}}
{"row":"queues-rocks-100","queues":100,"figures":FIGURES}
{"row":"queues-rocks-10","queues":10,"figures":FIGURES}
{"row":"queues-file-10","queues":10,"figures":FIGURES}
`

func rawText() string {
	return strings.ReplaceAll(raw, "FIGURES", `{"appendMiB":1,"endsMiB":2,"closedDiskMiB":3,"endsMillis":4,"makePerSecond":5,"appendPerSecond":6,"readPerSecond":7,"readMiB":8}`)
}

// The newest line of each number counts, and points come in order.
func TestRead(t *testing.T) {
	curves, err := read(strings.NewReader(rawText()))
	if err != nil {
		t.Fatal(err)
	}
	if f := curves["file"]; len(f) != 1 || f[0].figures["appendMiB"] != 1 {
		t.Fatalf("file: %v", f)
	}
	if r := curves["rocks"]; len(r) != 2 || r[0].queues != 10 || r[1].queues != 100 {
		t.Fatalf("rocks: %v", r)
	}
	for _, text := range []string{"", "{"} {
		if _, err := read(strings.NewReader(text)); err == nil {
			t.Fatalf("%q was taken", text)
		}
	}
}

// Each panel is drawn, and nothing is loaded from elsewhere.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	in, svg, png := filepath.Join(dir, "in"), filepath.Join(dir, "svg"), filepath.Join(dir, "png")
	if err := os.WriteFile(in, []byte(rawText()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(in, svg, png); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range panels {
		for _, p := range line {
			if !strings.Contains(string(b), p.title) {
				t.Errorf("%s is not drawn", p.title)
			}
		}
	}
	if strings.Contains(string(b), "href") || strings.Contains(string(b), "url(") {
		t.Error("the drawing refers to something else")
	}
	if b, err := os.ReadFile(png); err != nil || !strings.HasPrefix(string(b), "\x89PNG") {
		t.Errorf("no PNG: %v", err)
	}
	if err := run(filepath.Join(dir, "none"), svg, ""); err == nil {
		t.Error("no input, and no error")
	}
	if err := os.WriteFile(in, []byte(`{"row":"queues-file-10","queues":10,"figures":{"appendMiB":9}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(in, svg, ""); err == nil || !strings.Contains(err.Error(), "endsMiB") {
		t.Errorf("figures are missing: %v", err)
	}
}
