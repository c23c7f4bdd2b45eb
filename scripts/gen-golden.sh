#!/usr/bin/env bash
# gen-golden.sh DIR: takes store archives and their manifests from DIR into tests/golden/testdata.
#
# DIR holds NAME.tar.gz (one store directory called NAME, as RocketMQ left it on disk) and NAME.manifest.jsonl (what
# RocketMQ reported after it opened a copy); a store with two read preferences also has NAME.prefer-rocks.manifest.jsonl.
# Manifests are stored compressed. Running it twice gives the same bytes. Nothing is taken over when one file is amiss.
set -euo pipefail

limit=$((1024 * 1024)) # bytes; a larger file does not belong into the repository
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=$root/tests/golden/testdata

die() { printf 'gen-golden: %s\n' "$*" >&2; exit 1; }

[ $# -eq 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
from=$1
[ -d "$from" ] || die "$from is no directory"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

shopt -s nullglob
for archive in "$from"/*.tar.gz; do
  name=$(basename "$archive" .tar.gz)
  [ -f "$from/$name.manifest.jsonl" ] || die "$archive has no manifest beside it"
  tar -tzf "$archive" > "$stage/list" || die "$archive cannot be read"
  grep -q -v "^$name/" "$stage/list" && die "$archive holds more than the directory $name"
  grep -q "^$name/commitlog/" "$stage/list" || die "$archive holds no commitlog"
  cp "$archive" "$stage/$name.tar.gz"
done
for manifest in "$from"/*.manifest.jsonl; do
  head -n 1 "$manifest" | grep -q '^{"t":"meta"' || die "$manifest does not begin with its meta line"
  tail -n 1 "$manifest" | grep -q '^{"t":"end"' || die "$manifest does not end with its end line: cut off?"
  gzip -9 -n -c "$manifest" > "$stage/$(basename "$manifest").gz"
done
rm -f "$stage/list"

count=0
for file in "$stage"/*; do
  size=$(wc -c < "$file")
  [ "$size" -lt "$limit" ] || die "$(basename "$file") has $size bytes, the limit is $limit"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || die "nothing to take over in $from"

mkdir -p "$data"
install -m 644 "$stage"/* "$data"/
printf 'gen-golden: %d files in tests/golden/testdata\n' "$count"
