#!/usr/bin/env bash
# build-rocksdb.sh: a static RocksDB in the cache, and a go.work that makes plain `go build` find it.
# docs/building.md tells how to use it, docs/decisions/0001-rocksdb-build.md why it is done this way.
set -euo pipefail
umask 022
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The pair that belongs together: grocksdb's C calls are written against one RocksDB release.
GROCKSDB=github.com/linxGnu/grocksdb
GROCKSDB_VERSION=v1.9.9
ROCKSDB_VERSION=9.11.2
# Digest of the unpacked tree, as tree_digest prints it; the same for upstream's archive and Debian's.
ROCKSDB_TREE_SHA256=0d4d276498edabd89cbdcbf9b2a31f7e9940826e8198978aa509c25d1fb6f127
UPSTREAM_URL=https://github.com/facebook/rocksdb/archive/refs/tags/v$ROCKSDB_VERSION.tar.gz
DEBIAN_FILE=rocksdb_$ROCKSDB_VERSION.orig.tar.gz
DEBIAN_SHA256=4005068f5099c54c39968f3466da216e0a7b97fc78e1c51c722e643763058a5c

# The least processor the library runs on. RocksDB chooses its CRC32c, the checksum of RocketMQ's tables,
# when it is compiled: 1 GB/s for bare x86-64, 25 GB/s with SSE4.2 and PCLMUL, which servers have had
# since 2010 (GCC's name for them: westmere). A machine without them builds for bare x86-64.
PORTABLE=1
if [ -n "${ROCKSDB_PORTABLE:-}" ]; then
	PORTABLE=$ROCKSDB_PORTABLE
elif [ "$(uname -m)" = x86_64 ] && grep -qwm1 sse4_2 /proc/cpuinfo && grep -qwm1 pclmulqdq /proc/cpuinfo; then
	PORTABLE=westmere
fi

CMAKE_FLAGS=(
	-DCMAKE_BUILD_TYPE=Release
	-DCMAKE_POSITION_INDEPENDENT_CODE=ON
	-DCMAKE_INSTALL_LIBDIR=lib
	-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=40
	-DPORTABLE="$PORTABLE" -DFAIL_ON_WARNINGS=OFF -DROCKSDB_BUILD_SHARED=OFF
	-DWITH_SNAPPY=ON -DWITH_LZ4=ON -DWITH_ZSTD=ON -DWITH_ZLIB=ON -DWITH_BZ2=OFF
	-DWITH_LIBURING=OFF -DWITH_NUMA=OFF -DWITH_TBB=OFF -DWITH_JEMALLOC=OFF -DWITH_GFLAGS=OFF
	-DWITH_TESTS=OFF -DWITH_ALL_TESTS=OFF -DWITH_BENCHMARK_TOOLS=OFF
	-DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TRACE_TOOLS=OFF
)
# What a program that links librocksdb.a needs after it, in this order.
LINK_LIBS=(-lrocksdb -pthread -lstdc++ -ldl -lm -lzstd -llz4 -lz -lsnappy)

usage() {
	cat <<'USAGE'
usage: scripts/build-rocksdb.sh [--prefix DIR | --print-env | --help]

Builds the static RocksDB that TandemMQ links into the cache, once, and writes the
git-ignored go.work through which plain `go build ./...` and editors find it. Does
nothing when all of it is there.

  --prefix DIR   build, then install headers and library under DIR (for instance
                 /usr/local) for programs that embed TandemMQ; go.work is left alone
  --print-env    build, then print the export lines that let another module link
                 the cached library; go.work is left alone

environment
  ROCKSDB_TARBALL   source archive to use instead of fetching one (digest still checked)
  TANDEMMQ_CACHE    the cache, by default $XDG_CACHE_HOME/tandemmq or ~/.cache/tandemmq
  CC, CXX, CFLAGS, CXXFLAGS   as CMake takes them; another value is another build
  ROCKSDB_PORTABLE  the least processor to run on, as RocksDB's CMake option PORTABLE has it:
                    1 for the architecture's baseline, or a -march name
  ROCKSDB_JOBS      compiler processes at once (default: by cores and free memory)
USAGE
}

MODE=workspace PREFIX=
while [ $# -gt 0 ]; do
	case $1 in
	--prefix) [ $# -ge 2 ] || die "--prefix needs a directory"; MODE=prefix PREFIX=$2; shift 2 ;;
	--prefix=*) MODE=prefix PREFIX=${1#*=}; shift ;;
	--print-env) MODE=exports; shift ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ "$MODE" != prefix ] || [ -n "$PREFIX" ] || die "--prefix needs a directory"
# Under --print-env only the export lines go to standard output.
exec 3>&1
[ "$MODE" != exports ] || exec 1>&2

# ---- where things are -------------------------------------------------------------------------

need() { # need COMMAND PACKAGE
	command -v "$1" >/dev/null ||
		die "$1 is missing; install it with: apt-get install $2 (or let scripts/setup.sh do all of it)"
}

export CC=${CC:-gcc} CXX=${CXX:-g++}
need "${CC%% *}" gcc
need "${CXX%% *}" g++
need sha256sum coreutils

# Go's build cache keys on flags, not on the library behind them, so all that shapes the library
# must shape its path: source, flags, compiler, machine.
compiler() { $CC --version | sed -n 1p; $CXX --version | sed -n 1p; uname -m; }
KEY=$(printf '%s\n' "$ROCKSDB_TREE_SHA256" "${CMAKE_FLAGS[@]}" "${CFLAGS:-}" "${CXXFLAGS:-}" "$(compiler)" |
	sha256sum | cut -c1-12)
KEY=$ROCKSDB_VERSION-$KEY
LIB=$CACHE/rocksdb/$KEY                           # include/ and lib/, published by one rename
WORK=$CACHE/build/$KEY                            # src/ and obj/, removed after publication
TARBALL=$CACHE/src/rocksdb-$ROCKSDB_VERSION.tar.gz # verified before it is put here
BINDING=$CACHE/grocksdb/$GROCKSDB_VERSION-$KEY    # the module plus one file of cgo flags

# ---- source -----------------------------------------------------------------------------------

# tree_digest DIR: sha256 over the sorted list of files with their hashes, and of anything that is
# neither file nor directory. Times, modes, owners and DIR's own name do not count.
tree_digest() (
	cd "$1"
	{
		find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
		find . ! -type f ! -type d -printf '%y %p -> %l\n' | LC_ALL=C sort
	} | sha256sum | cut -d' ' -f1
)

# unpack FILE: puts the one top folder of FILE at $WORK/src if its digest is the pinned one.
unpack() {
	local tmp=$WORK/unpack tops digest
	rm -rf "$tmp" && mkdir -p "$tmp"
	tar -xzf "$1" -C "$tmp" --no-same-owner --no-same-permissions || { say "cannot unpack $1" >&2; return 1; }
	tops=("$tmp"/*)
	if [ ${#tops[@]} != 1 ] || [ ! -d "${tops[0]}" ]; then
		say "$1 does not hold exactly one folder" >&2
		return 1
	fi
	digest=$(tree_digest "${tops[0]}")
	if [ "$digest" != "$ROCKSDB_TREE_SHA256" ]; then
		say "$1 is not RocksDB $ROCKSDB_VERSION as pinned: tree digest $digest, want $ROCKSDB_TREE_SHA256" >&2
		return 1
	fi
	mv -T "${tops[0]}" "$WORK/src"
	rm -rf "$tmp"
}

fetch_upstream() { # fetch_upstream OUT
	command -v curl >/dev/null || { say "curl is missing: upstream release skipped"; return 1; }
	say "fetching the upstream release: $UPSTREAM_URL"
	curl -fsSL --connect-timeout 5 --speed-limit 1024 --speed-time 20 --max-time 600 -o "$1" "$UPSTREAM_URL"
}

apt_mirrors() {
	# shellcheck disable=SC2016 # $(REPO_URI) is apt's own syntax
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | grep -v -e security -e '^cdrom'
}

# fetch_debian OUT: Debian and Ubuntu carry the same source; the mirror is the one apt is set up with,
# and apt's own helper brings its proxies and checks the sum.
fetch_debian() {
	local helper=/usr/lib/apt/apt-helper uri part
	if ! command -v apt-get >/dev/null || [ ! -x $helper ]; then
		say "no apt here: Debian source package skipped"
		return 1
	fi
	while read -r uri; do
		for part in main universe; do
			say "fetching the Debian source package from apt's mirror ($part)"
			$helper -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=1 -o APT::Sandbox::User=root \
				download-file "${uri%/}/pool/$part/r/rocksdb/$DEBIAN_FILE" "$1" "SHA256:$DEBIAN_SHA256" && return 0
		done
	done < <(apt_mirrors)
	say "apt's configuration names no mirror that has it"
	return 1
}

# get_source: leaves a verified tree at $WORK/src.
get_source() {
	local how tmp=$WORK/download
	if [ -d "$WORK/src" ]; then
		[ "$(tree_digest "$WORK/src")" = "$ROCKSDB_TREE_SHA256" ] && return 0
		say "the unpacked source was changed: unpacking afresh"
		rm -rf "$WORK"
	fi
	mkdir -p "$WORK" "$CACHE/src"
	need tar tar
	if [ -n "${ROCKSDB_TARBALL:-}" ]; then
		[ -r "$ROCKSDB_TARBALL" ] || die "ROCKSDB_TARBALL=$ROCKSDB_TARBALL cannot be read"
		say "source: $ROCKSDB_TARBALL"
		unpack "$ROCKSDB_TARBALL" || die "ROCKSDB_TARBALL refused; unset it to fetch the source"
		return 0
	fi
	if [ -f "$TARBALL" ]; then
		say "source: $TARBALL"
		unpack "$TARBALL" && return 0
		rm -f "$TARBALL"
	fi
	for how in upstream debian; do
		rm -f "$tmp"
		if "fetch_$how" "$tmp" && unpack "$tmp"; then
			mv "$tmp" "$TARBALL"
			return 0
		fi
	done
	die "no source of RocksDB $ROCKSDB_VERSION could be reached. Check the network, or fetch
  $UPSTREAM_URL
on another machine and run: ROCKSDB_TARBALL=FILE scripts/build-rocksdb.sh"
}

# ---- build ------------------------------------------------------------------------------------

# jobs: one compiler a core, but no more than memory holds; a unity unit takes up to 1.8 GB.
jobs_count() {
	local cores kib limit n
	cores=$(nproc)
	kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
	limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
	if [[ $limit =~ ^[0-9]+$ ]] && [ $((limit / 1024)) -lt "$kib" ]; then kib=$((limit / 1024)); fi
	n=$((kib / (1900 * 1024)))
	[ "$n" -ge 1 ] || n=1
	[ "$n" -le "$cores" ] || n=$cores
	echo "$n"
}

check_tools() {
	need cmake cmake
	need ninja ninja-build
	local h
	for h in snappy.h:libsnappy-dev lz4.h:liblz4-dev zstd.h:libzstd-dev zlib.h:zlib1g-dev; do
		echo "#include <${h%:*}>" | $CXX -x c++ -fsyntax-only - 2>/dev/null ||
			die "the header ${h%:*} is missing; install it with: apt-get install ${h#*:} (or let scripts/setup.sh do all of it)"
	done
}

# heartbeat: a line every 15 s, so that nobody takes a silent compiler for a hung one.
heartbeat() {
	exec 9>&-
	local total start=$SECONDS
	total=$(find "$WORK/obj" -name 'unity_*.cxx' | wc -l)
	while sleep 15 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
		say "compiling: $(find "$WORK/obj" -name 'unity_*.o' | wc -l) of $total units, $((SECONDS - start)) s"
	done
}

build() {
	local start=$SECONDS n beat
	check_tools
	get_source
	if [ ! -f "$WORK/configured" ]; then
		say "configuring (log: $WORK/cmake.log)"
		cmake -S "$WORK/src" -B "$WORK/obj" -G Ninja "${CMAKE_FLAGS[@]}" >"$WORK/cmake.log" 2>&1 || {
			tail -n 20 "$WORK/cmake.log" >&2
			die "cmake failed; the whole log is $WORK/cmake.log"
		}
		touch "$WORK/configured"
	fi
	n=${ROCKSDB_JOBS:-$(jobs_count)}
	say "compiling RocksDB $ROCKSDB_VERSION with $n job(s): about 2.5 minutes on two idle cores, once for this machine"
	heartbeat &
	beat=$!
	# shellcheck disable=SC2064
	trap "kill $beat 2>/dev/null || true" EXIT
	TERM=dumb NINJA_STATUS='[%f/%t %es] ' ninja -C "$WORK/obj" -j "$n" rocksdb ||
		die "the build failed; run the script again to continue where it stopped ($(df -Ph "$WORK" | awk 'NR==2 {print $4}') free on that disk)"
	kill "$beat" 2>/dev/null || true
	trap - EXIT
	publish
	say "built in $((SECONDS - start)) s"
}

# publish: install beside the final place, link a program against it, rename. Nothing half-made is
# ever seen under $LIB.
publish() {
	local tmp=$LIB.tmp
	rm -rf "$tmp" && mkdir -p "$tmp"
	cmake --install "$WORK/obj" --prefix "$tmp" >"$WORK/install.log" ||
		die "install failed; the log is $WORK/install.log"
	cat >"$WORK/probe.c" <<-'C'
		#include <rocksdb/c.h>
		int main(void) {
			rocksdb_options_t *o = rocksdb_options_create();
			int lz4 = rocksdb_lz4_compression, got;
			rocksdb_options_set_compression(o, lz4);
			got = rocksdb_options_get_compression(o);
			rocksdb_options_destroy(o);
			return got != lz4;
		}
	C
	$CC -I"$tmp/include" "$WORK/probe.c" -o "$WORK/probe" -L"$tmp/lib" "${LINK_LIBS[@]}" ||
		die "a program does not link against the library just built"
	"$WORK/probe" || die "a program linked against the library just built does not run"
	{
		echo "rocksdb $ROCKSDB_VERSION for grocksdb $GROCKSDB_VERSION"
		echo "tree sha256 $ROCKSDB_TREE_SHA256"
		echo "flags ${CMAKE_FLAGS[*]}"
		echo "CFLAGS ${CFLAGS:-} CXXFLAGS ${CXXFLAGS:-}"
		compiler
	} >"$tmp/BUILD-INFO"
	mv -T "$tmp" "$LIB"
	rm -rf "$WORK"
}

# ---- the workspace ----------------------------------------------------------------------------

# make_binding: a copy of the grocksdb module that knows where our library is. Absolute flags in a
# file of the package itself are the one thing that reaches its compile with no environment set.
make_binding() {
	local dir tmp=$BINDING.tmp
	need go golang-go
	say "preparing grocksdb $GROCKSDB_VERSION"
	# Run in the module, so that go.sum vouches for it.
	dir=$(cd "$ROOT" && GOWORK=off GOFLAGS=-mod=mod go mod download -json "$GROCKSDB@$GROCKSDB_VERSION" |
		sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
	[ -d "$dir" ] || die "go could not fetch $GROCKSDB $GROCKSDB_VERSION (is the module proxy reachable? GOPROXY=$(go env GOPROXY))"
	rm -rf "$tmp" && mkdir -p "${tmp%/*}"
	cp -R "$dir" "$tmp" && chmod -R u+w "$tmp"
	cat >"$tmp/tandemmq_flags.go" <<-GO
		package grocksdb

		// #cgo CFLAGS: -I$LIB/include
		// #cgo LDFLAGS: -L$LIB/lib
		import "C"
	GO
	mv -T "$tmp" "$BINDING"
}

go_work() {
	cat <<-WORK
		// Written by scripts/build-rocksdb.sh; not in git. Points grocksdb at the RocksDB in the cache.
		go $(sed -n 's/^go //p' "$ROOT/go.mod")

		use .

		replace $GROCKSDB $GROCKSDB_VERSION => $BINDING
	WORK
}

write_go_work() {
	local tmp
	[ "$(cat "$ROOT/go.work" 2>/dev/null)" != "$(go_work)" ] || return 0
	if [ -f "$ROOT/go.work" ] && ! grep -q 'Written by scripts/build-rocksdb.sh' "$ROOT/go.work"; then
		cp "$ROOT/go.work" "$ROOT/go.work.orig"
		say "go.work was not written by this script: kept as go.work.orig"
	fi
	tmp=$(mktemp "$ROOT/go.work.XXXXXX")
	go_work >"$tmp" && chmod 644 "$tmp" && mv "$tmp" "$ROOT/go.work"
	say "wrote go.work"
}

install_prefix() {
	if ! mkdir -p "$PREFIX/include" "$PREFIX/lib" 2>/dev/null || [ ! -w "$PREFIX/include" ] || [ ! -w "$PREFIX/lib" ]; then
		die "cannot write to $PREFIX. The library is built; install it with
  sudo mkdir -p $PREFIX && sudo cp -R $LIB/include $LIB/lib $PREFIX/"
	fi
	rm -rf "$PREFIX/include/rocksdb"
	cp -R "$LIB/include/rocksdb" "$PREFIX/include/"
	cp "$LIB/lib/librocksdb.a" "$PREFIX/lib/librocksdb.a.tmp"
	mv "$PREFIX/lib/librocksdb.a.tmp" "$PREFIX/lib/librocksdb.a"
	say "installed RocksDB $ROCKSDB_VERSION under $PREFIX"
}

# ---- do it ------------------------------------------------------------------------------------

grep -Eq "^[[:space:]]*(require )?[[:space:]]*$GROCKSDB $GROCKSDB_VERSION( |\$)" "$ROOT/go.mod" ||
	die "go.mod does not require grocksdb $GROCKSDB_VERSION; RocksDB $ROCKSDB_VERSION belongs to that version: change the pair in this script together with go.mod"

ready() {
	[ -f "$LIB/BUILD-INFO" ] && { [ "$MODE" != workspace ] || [ -f "$BINDING/tandemmq_flags.go" ]; }
}

if ! ready; then
	# The lock is held by this process and its compilers, so a build whose script was killed is first
	# let finish its running units and is then continued.
	need flock util-linux
	mkdir -p "$CACHE/build" "$CACHE/rocksdb"
	exec 9>"$CACHE/build/$KEY.lock"
	flock -n 9 || {
		say "another build of the same library is running: waiting for it"
		flock 9
	}
	[ -f "$LIB/BUILD-INFO" ] || build
	ready || make_binding
	exec 9>&-
fi

case $MODE in
workspace)
	write_go_work
	say "RocksDB $ROCKSDB_VERSION is ready: $LIB"
	;;
prefix) install_prefix ;;
exports)
	printf 'export CGO_CFLAGS="-O2 -g -I%s/include"\n' "$LIB" >&3
	printf 'export CGO_LDFLAGS="-O2 -g -L%s/lib %s"\n' "$LIB" "${LINK_LIBS[*]}" >&3
	;;
esac
