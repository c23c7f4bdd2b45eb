//go:build !cgo

package main

import (
	"time"

	"github.com/tandemq/tandemmq/cq"
)

func bareGets(string, int) (time.Duration, error) { return 0, cq.ErrNoRocksDB }
