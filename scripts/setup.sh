#!/usr/bin/env bash
# setup.sh: install what a fresh Debian or Ubuntu machine lacks to build and test TandemMQ.
# Looks first and does nothing, in well under a second, where all is there.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
	cat <<'USAGE'
usage: scripts/setup.sh [java]

Installs, through apt-get and only where missing: a C++ compiler, cmake, ninja, the
compression libraries and a Go toolchain (with `java`: also a JDK and Maven, for the
interop tests). Uses sudo when it is there and the caller is not root; otherwise
prints the command to run. A Go toolchain newer than the distribution's comes through
the Go module proxy into the cache, which the Makefile puts first on its PATH.
USAGE
}

java=no
case ${1:-} in
'') ;;
java) java=yes ;;
-h | --help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

# ---- which Go ---------------------------------------------------------------------------------

# The version go.mod asks for: its toolchain line when it has one, else its go line.
want_go=$(sed -n 's/^toolchain go//p' "$ROOT/go.mod")
want_go=${want_go:-$(sed -n 's/^go //p' "$ROOT/go.mod")}

# at_least A B: version A is known and is B or newer.
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | sed -n 1p)" = "$2" ]; }
# local_go GO: the version of that very binary, without switching to another toolchain.
local_go() { GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9.]*\).*/\1/p'; }

# machine_go: the machine's own go, seen without the cache's; nothing where there is none.
machine_go() (
	PATH=${PATH//"$CACHE/go/bin:"/}
	command -v go || true
)

# ---- packages ---------------------------------------------------------------------------------

missing=()
want() { # want COMMAND PACKAGE
	command -v "$1" >/dev/null || missing+=("$2")
}
want git git
want make make
want cmake cmake
want ninja ninja-build
want gcc gcc
want g++ g++
want curl curl
want flock util-linux
want tar tar
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)

has_header() { echo "#include <$1>" | "${CXX:-g++}" -x c++ -fsyntax-only - 2>/dev/null; }
for pair in stdlib.h:libc6-dev snappy.h:libsnappy-dev lz4.h:liblz4-dev zstd.h:libzstd-dev zlib.h:zlib1g-dev; do
	has_header "${pair%:*}" || missing+=("${pair#*:}")
done

own_go=$(machine_go)
if [ -z "$own_go" ] && ! at_least "$(local_go "$CACHE/go/bin/go")" "$want_go"; then
	missing+=(golang-go)
fi

if [ $java = yes ]; then
	want javac default-jdk-headless
	want mvn maven
fi

# apt_install PACKAGE...: as root, through sudo, or by telling the user what to run.
apt_install() {
	local sudo=()
	if ! command -v apt-get >/dev/null; then
		die "missing: $* (these are the Debian package names; there is no apt-get here, install their like by hand)"
	fi
	if [ "$(id -u)" != 0 ]; then
		if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
			sudo=(sudo)
		else
			die "missing: $*. Run as root:
  apt-get update && apt-get install -y --no-install-recommends $*"
		fi
	fi
	say "installing through apt-get: $*"
	"${sudo[@]}" apt-get -q update
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"
}

[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"

# ---- Go ---------------------------------------------------------------------------------------

# fetch_toolchain GO: the module golang.org/toolchain holds a whole GOROOT. Go 1.21 and newer know how
# to take it; older ones download it like any module and leave the modes to us.
fetch_toolchain() {
	local go=$1 root mod dest=$CACHE/toolchain/go$want_go
	say "go is $(local_go "$go"), this module needs $want_go: fetching it through the Go module proxy"
	if at_least "$(local_go "$go")" 1.21; then
		root=$(cd / && GOTOOLCHAIN=go$want_go "$go" env GOROOT) || die "go$want_go could not be fetched (GOPROXY=$("$go" env GOPROXY))"
	else
		local tmp
		tmp=$(mktemp -d)
		mod=golang.org/toolchain@v0.0.1-go$want_go.$("$go" env GOOS)-$("$go" env GOARCH)
		root=$(cd "$tmp" && GO111MODULE=on GOFLAGS=-mod=mod "$go" mod download -json "$mod" |
			sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
		rm -rf "$tmp"
		[ -d "$root" ] || die "$mod could not be fetched (GOPROXY=$("$go" env GOPROXY))"
		rm -rf "$dest.tmp" && mkdir -p "${dest%/*}"
		cp -R "$root" "$dest.tmp" && chmod -R u+w "$dest.tmp"
		chmod +x "$dest.tmp"/bin/* "$dest.tmp"/pkg/tool/*/*
		rm -rf "$dest" && mv -T "$dest.tmp" "$dest"
		root=$dest
	fi
	ln -sfn "$root" "$CACHE/go"
	say "go $("$CACHE/go/bin/go" env GOVERSION) is ready: $CACHE/go/bin"
}

hash -r
own_go=$(machine_go)
if [ -n "$own_go" ] && at_least "$(local_go "$own_go")" "$want_go"; then
	[ ! -L "$CACHE/go" ] || rm -f "$CACHE/go" # no longer needed
elif at_least "$(local_go "$CACHE/go/bin/go")" "$want_go"; then
	: # fetched before
else
	fetch_toolchain "$own_go"
fi
