package main

import (
	"os"
	"testing"

	"github.com/tandemq/tandemmq/bench/load"
)

func TestMain(m *testing.M) {
	load.SmallFiles()
	os.Exit(m.Run())
}
