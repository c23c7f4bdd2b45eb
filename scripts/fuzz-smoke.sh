#!/usr/bin/env bash
# fuzz-smoke.sh: run every fuzz target of the module for FUZZTIME each.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

count=0
while read -r pkg dir; do
	# Looked up in the text: listing through `go test -list` would build every test binary first.
	targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u || true)
	for target in $targets; do
		say "$pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$pkg"
		count=$((count + 1))
	done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
[ "$count" -gt 0 ] || die "found no fuzz target"
say "$count fuzz targets ran"
