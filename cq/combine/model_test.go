//go:build cgo

package combine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tandemq/tandemmq/cq"
	"github.com/tandemq/tandemmq/cq/combine"
	"github.com/tandemq/tandemmq/cq/cqtest"
)

func FuzzModel(f *testing.F) {
	cqtest.FuzzModel(f, cqtest.ModelHarness{
		Harness: cqtest.Harness{
			Open: func(dir string, o cqtest.OpenOptions) (cq.Store, error) {
				return openCombined(dir, o, combine.Options{})
			},
			KeepsTime:   true,
			TimeMayVary: true,
		},
		Switch: func(s cq.Store, choice byte) error {
			c := s.(*combine.Store)
			return errors.Join(c.SetPreferred(bothKinds[choice%2]), c.SetAuthority(bothKinds[choice/2%2]))
		},
		Check: func(s cq.Store, next map[cq.Key]int64) error { return checkAlike(s.(*combine.Store), next) },
	})
}

// checkAlike tells where the sides differ, or would not give the next slot.
func checkAlike(s *combine.Store, next map[cq.Key]int64) error {
	if d := s.Diverged(); len(d) > 0 {
		return fmt.Errorf("diverged: %v", d)
	}
	for k, want := range next {
		got, err := s.NextOffset(k)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("next offset of %s is %d, want %d", k, got, want)
		}
		v, err := s.Verify(context.Background(), k, combine.Units)
		if err != nil {
			return err
		}
		if !v.OK() {
			return fmt.Errorf("sides differ: %v", v.Differences)
		}
		for _, kind := range bothKinds {
			if !s.Ready(kind, k) {
				return fmt.Errorf("%s side is not ready for %s", kind, k)
			}
		}
	}
	return nil
}
