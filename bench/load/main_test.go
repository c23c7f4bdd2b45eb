package load

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	SmallFiles()
	os.Exit(m.Run())
}
