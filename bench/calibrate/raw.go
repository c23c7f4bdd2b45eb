package calibrate

import (
	"encoding/json"
	"errors"
	"os"
)

// AppendJSON appends v to the file path as one line of JSON, which is how raw results are kept. An empty path: nothing is kept.
func AppendJSON(path string, v any) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
