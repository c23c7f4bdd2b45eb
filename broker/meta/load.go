package meta

import (
	"encoding/json"
	"log/slog"

	"github.com/tandemq/tandemmq/internal/conffile"
)

// withExtra is a file's object with the members its type does not name.
type withExtra[T any] struct {
	known T
	extra extra
}

func (f *withExtra[T]) UnmarshalJSON(b []byte) (err error) {
	f.extra, err = decodeWithExtra(b, &f.known)
	return err
}

// loadLogged loads a file, and logs one that was set aside.
func loadLogged(path string, v json.Unmarshaler, reset func(), log *slog.Logger) (found bool, err error) {
	found, note, err := conffile.Load(path, v, reset)
	if note != nil && log != nil {
		log.Warn("a file of the configuration is damaged", slog.String("file", path), slog.Any("err", note))
	}
	return found, err
}

// encodeFile encodes a file's object with what its type does not name.
func encodeFile(known any, x extra) ([]byte, error) {
	b, err := encodeWithExtra(known, x)
	if err != nil {
		return nil, err
	}
	return indented(json.RawMessage(b))
}
