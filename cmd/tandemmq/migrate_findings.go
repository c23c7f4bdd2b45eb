package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"

	"github.com/tandemq/tandemmq/migrate"
)

// findingsFile takes every finding of a step, one JSON object a line. The first error sticks.
type findingsFile struct {
	f   *os.File
	w   *bufio.Writer
	err error
}

// openFindings makes the file; without a name nothing is kept.
func openFindings(name string) (*findingsFile, error) {
	if name == "" {
		return &findingsFile{}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &findingsFile{f: f, w: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (o *findingsFile) add(f migrate.Finding) {
	if o.f != nil {
		o.err = errors.Join(o.err, json.NewEncoder(o.w).Encode(f))
	}
}

func (o *findingsFile) close() error {
	if o.f == nil {
		return nil
	}
	return errors.Join(o.err, o.w.Flush(), o.f.Close())
}
