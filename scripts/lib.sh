# shellcheck shell=bash
# lib.sh: what the scripts share. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() {
	printf '%s: error: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# CACHE is everything this project keeps outside the work tree: RocksDB, the patched grocksdb, a Go
# toolchain, linters. The Makefile computes the same path.
if [ -z "${TANDEMMQ_CACHE:-}" ] && [ -z "${XDG_CACHE_HOME:-}" ] && [ -z "${HOME:-}" ]; then
	die "none of TANDEMMQ_CACHE, XDG_CACHE_HOME, HOME is set: no place for the cache"
fi
CACHE=${TANDEMMQ_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/tandemmq}
mkdir -p "$CACHE" || die "cannot create the cache directory $CACHE (set TANDEMMQ_CACHE to another place)"
CACHE=$(cd "$CACHE" && pwd -P)

# The path goes into cgo flags, which allow no blank and no quote.
[[ $CACHE =~ ^[A-Za-z0-9_/.+,@%:=~-]+$ ]] ||
	die "the cache path '$CACHE' has characters that cgo flags cannot hold: set TANDEMMQ_CACHE to a plain path"
case $CACHE/ in
"$ROOT"/*) die "the cache $CACHE lies inside the work tree: set TANDEMMQ_CACHE to a path outside $ROOT" ;;
esac

# A toolchain that setup.sh fetched comes first; it exists only where the machine's own go is too old.
PATH=$CACHE/go/bin:$PATH
export PATH
