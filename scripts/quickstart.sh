#!/usr/bin/env bash
# quickstart.sh: the whole migration on a sample store, from files to RocksDB and back, each step checked; then the same in a running broker.
# Run by `make quickstart`, which builds bin/tandemmq first.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
'') keep=no ;;
--keep) keep=yes ;;
*)
	echo "usage: scripts/quickstart.sh [--keep]    (--keep: leave the sample store for a look)"
	[ "$1" = --help ] && exit 0 || exit 2
	;;
esac

TANDEMMQ=$ROOT/bin/tandemmq
[ -x "$TANDEMMQ" ] || die "bin/tandemmq is missing: run make quickstart"
MESSAGES=${MESSAGES:-200000}

tmp=$(mktemp -d)
if [ "$keep" = yes ]; then
	trap 'echo "The store is left in $tmp/store"' EXIT
else
	trap 'rm -rf "$tmp"' EXIT
fi
store=$tmp/store

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n%s\n' "$*"; }
run() {
	# The command as a reader would type it, quoted where a shell needs it.
	printf '  $ tandemmq'
	printf ' %q' "$@"
	printf '\n'
	"$TANDEMMQ" "$@"
}
# queue_sum: one hash over every file of the file consume queues.
queue_sum() { (cd "$store/consumequeue" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

step "1. A sample store, as RocketMQ 5.5.0 lays it out: messages in the log, one folder of files for each queue"
run store generate --store "$store" --messages "$MESSAGES" --topics 4 --queues 4 --tags 5 --keys 1
before=$(queue_sum)

step "2. Migrate: plan, backfill, verify every unit, cut over"
run migrate run --store "$store" --to rocks --yes
run migrate status --store "$store"

step "3. Messages, found through RocksDB"
run store dump --store "$store" --cq rocks --topic sample_0 --queue 0 --limit 3

step "4. The same question to both sides, for all messages: are the answers equal?"
"$TANDEMMQ" store dump --store "$store" --cq file >"$tmp/file.jsonl"
"$TANDEMMQ" store dump --store "$store" --cq rocks >"$tmp/rocks.jsonl"
cmp "$tmp/file.jsonl" "$tmp/rocks.jsonl" || die "the two sides answer differently"
read_back=$(grep -c '"t":"msg"' "$tmp/rocks.jsonl")
[ "$read_back" = "$MESSAGES" ] || die "read $read_back messages through RocksDB, wrote $MESSAGES"
echo "  equal: $read_back messages"

step "5. And back: reads return to the files"
run migrate rollback --store "$store" --yes
[ "$(queue_sum)" = "$before" ] || die "the file queues were changed on the way"

step "6. The same in a running broker, which serves all the while: begin, and restart it once"
mkdir "$tmp/online"
live=$tmp/online/store
run store generate --store "$live" --messages "$MESSAGES" --topics 4 --queues 4 --quiet >/dev/null
broker_pid=
port=
start_broker() {
	"$TANDEMMQ" broker --store "$live" --listen 127.0.0.1:0 --quiet >"$tmp/broker.out" 2>"$tmp/broker.err" &
	broker_pid=$!
	for _ in $(seq 600); do
		port=$(sed -n 's/^ready .*listen=\([^ ]*\).*/\1/p' "$tmp/broker.out")
		[ -n "$port" ] && break
		kill -0 "$broker_pid" 2>/dev/null || die "the broker did not start: $(cat "$tmp/broker.err")"
		sleep 0.1
	done
	sed 's/^/  /' "$tmp/broker.out"
}
stop_broker() {
	kill -TERM "$broker_pid"
	wait "$broker_pid" || die "the broker did not end in order: $(cat "$tmp/broker.err")"
	broker_pid=
}
trap '[ -z "$broker_pid" ] || kill "$broker_pid"; if [ "$keep" = yes ]; then echo "The stores are left in $tmp"; else rm -rf "$tmp"; fi' EXIT
online() { run migrate online "$1" --broker "$port" "${@:2}"; }
start_broker
online begin --to rocks >/dev/null
stop_broker
start_broker
online status --watch --every 100ms

step "7. Reads move: of one topic, of all, back, and again; no restart"
online cutover --topics sample_0 >/dev/null
online cutover >/dev/null
online rollback >/dev/null
online verify >/dev/null
online status --watch --every 100ms >/dev/null
online cutover

step "8. The files are given up: the next start moves them aside"
online finalize --grace 24h >/dev/null
stop_broker
start_broker
online status
stop_broker
"$TANDEMMQ" store dump --store "$live" >"$tmp/live.jsonl"
live_back=$(grep -c '"t":"msg"' "$tmp/live.jsonl")
[ "$live_back" = "$MESSAGES" ] || die "read $live_back messages through RocksDB, wrote $MESSAGES"

step "Summary"
cat <<SUMMARY
  $MESSAGES messages in 16 queues were written as files.
  Their queues were moved into RocksDB, and every unit was compared with its source before reads switched.
  $read_back messages were read through RocksDB, equal to the same messages read through the files.
  Reads were then rolled back. The original queue files are byte for byte what they were.
  A second store was migrated while a broker served it: reads moved without a restart, back, and again.
  All steps took $SECONDS s.

  On a stopped broker's store of your own, begin with the step that changes nothing:
    bin/tandemmq migrate plan --store DIR
SUMMARY
