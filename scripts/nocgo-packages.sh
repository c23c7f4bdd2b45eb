#!/usr/bin/env bash
# nocgo-packages.sh: prints the packages whose tests are worth running with CGO_ENABLED=0: those whose code is another one then, as RocksDB is in them or in their tests. Left
# out are kills and loads, which with files alone are what they are with cgo.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
export CGO_ENABLED=1
MODULE=$(go list -m -f '{{if .Main}}{{.Path}}{{end}}' | head -1)
go list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./... |
	awk -v dep="$MODULE/internal/rocks" '{for (i = 1; i <= NF; i++) if ($i == dep) {print $1; next}}' |
	sort -u | grep -v -e "^$MODULE/bench/" -e "^$MODULE/tests/crash\$" -e "^$MODULE/tests/soak\$" -e "^$MODULE/tests/interop"
