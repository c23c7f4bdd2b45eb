package file

import (
	"os"
	"testing"

	"github.com/tandemq/tandemmq/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
