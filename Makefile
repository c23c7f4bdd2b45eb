# Every target does its own set-up: it installs what a fresh Debian or Ubuntu machine lacks, builds
# RocksDB once, and then works. docs/building.md explains the parts.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# As scripts/lib.sh computes it; there is a Go toolchain in it where the machine's own is too old.
CACHE := $(or $(TANDEMMQ_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tandemmq)
export PATH := $(CACHE)/go/bin:$(PATH)

GO ?= go
# Packages tested at once: tests wait for much of their time.
P ?= 3
FUZZTIME ?= 10s
SOAK ?= 20m
BENCH ?= .
BENCHCOUNT ?= 1
BENCHFLAGS ?=
# Sample stores of the benchmarks, kept between runs (several GB).
BENCHDIR ?= $(CACHE)/bench

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: build ## see it work: make a sample store, migrate it to RocksDB, read it, roll back
	@scripts/quickstart.sh

.PHONY: test
test: rocksdb ## vet, then all tests: plain, under the race detector, and without cgo
	$(GO) vet ./...
	$(GO) test -timeout 30m -p $(P) ./...
	$(GO) test -tags tandemmq_failpoints -run 'AtPlaces|ViewLoss' ./tests/crash
	@$(MAKE) test-race test-nocgo

.PHONY: build
build: rocksdb ## build bin/tandemmq
	$(GO) build -ldflags "-X main.buildVersion=$$(git describe --tags --always --dirty)" -o bin/ ./cmd/tandemmq

# ---- set-up -----------------------------------------------------------------------------------

.PHONY: setup
setup: ## install missing packages and a Go toolchain (does nothing when all is there)
	@scripts/setup.sh

.PHONY: rocksdb
rocksdb: setup ## build the static RocksDB and go.work (does nothing when they are there)
	@scripts/build-rocksdb.sh

# ---- more tests -------------------------------------------------------------------------------

.PHONY: test-race
test-race: rocksdb ## all tests under the race detector, in random order
	TANDEMMQ_KILLS=3 TANDEMMQ_SEEDS=1 $(GO) test -race -timeout 30m -shuffle=on -p $(P) ./...

.PHONY: test-nocgo
test-nocgo: setup ## build and vet with CGO_ENABLED=0, and test what has RocksDB in it otherwise
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) test -timeout 30m -p $(P) $$(scripts/nocgo-packages.sh)

.PHONY: test-crash
test-crash: rocksdb ## kill and power-loss tests, uncached; TANDEMMQ_SEEDS=full TANDEMMQ_KILLS=n TANDEMMQ_SEED=n
	$(GO) test -count=1 -p 1 -timeout 4h -tags tandemmq_failpoints -v ./tests/crash/...

.PHONY: soak
soak: rocksdb ## a broker under load, killed again and again, for SOAK (20m): nothing is lost, nothing grows
	SOAK=$(SOAK) $(GO) test -count=1 -timeout 0 -v -run TestSoak ./tests/soak

.PHONY: golden
golden: rocksdb ## stores written by RocketMQ against their manifests, uncached
	$(GO) test -count=1 ./tests/golden/...

.PHONY: fuzz-smoke
fuzz-smoke: rocksdb ## run every fuzz target for FUZZTIME (10s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz-smoke.sh

.PHONY: interop
interop: rocksdb ## RocketMQ 5.5.0 itself opens what we wrote (installs a JDK and Maven)
	@scripts/setup.sh java
	$(GO) test -p 1 -parallel 4 -count=1 -timeout 30m -tags interop ./tests/interop/...

# ---- benchmarks -------------------------------------------------------------------------------

.PHONY: bench
bench: rocksdb ## Go benchmarks; BENCH=regexp BENCHCOUNT=n
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -p 1 ./...

.PHONY: bench-compare
bench-compare: build ## the same workloads through each kind of store, beside RocketMQ's (installs a JDK and Maven), in five minutes; BENCHDIR=DIR, BENCHFLAGS="--profile full"
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	bin/tandemmq bench compare --dir $(BENCHDIR) --json $(BENCHDIR)/compare.json --html $(BENCHDIR)/compare.html $(BENCHFLAGS)

.PHONY: bench-migrate
bench-migrate: build ## backfill speed and memory, with its RATIO lines; BENCHDIR=DIR
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/migrate -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-put
bench-put: build ## how fast messages are stored, beside RocketMQ (installs a JDK and Maven); BENCHDIR=DIR
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/put -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-dispatch
bench-dispatch: rocksdb ## how fast queues are built and a store opens, beside RocketMQ (installs a JDK and Maven); BENCHDIR=DIR
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/dispatch -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-cq
bench-cq: rocksdb ## consume queues in files, RocksDB and both, beside RocketMQ (installs a JDK and Maven); BENCHDIR=DIR, BENCHFLAGS=-quick
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/cq -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-read
bench-read: rocksdb ## how fast a store is read, beside RocketMQ (installs a JDK and Maven); BENCHDIR=DIR, BENCHFLAGS=-full
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/read -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-broker
bench-broker: build ## the broker over loopback, beside RocketMQ's (installs a JDK and Maven); BENCHDIR=DIR, BENCHFLAGS=-quick
	@scripts/setup.sh java
	@mkdir -p $(BENCHDIR)
	$(GO) run ./bench/broker -dir $(BENCHDIR) $(BENCHFLAGS)

.PHONY: bench-cq-chart
bench-cq-chart: setup ## draw docs/many-queues.svg from bench/results/cq.jsonl
	$(GO) run ./bench/chart -in bench/results/cq.jsonl -svg docs/many-queues.svg

# ---- keeping it tidy --------------------------------------------------------------------------

# Linters have their own module, so that ours stays small; built once for each tools/go.sum.
TOOLS = $(CACHE)/tools/$(shell cat tools/go.mod tools/go.sum | sha256sum | cut -c1-12)

.PHONY: tools
tools: setup ## build the pinned linters into the cache
	@if [ ! -x $(TOOLS)/golangci-lint ]; then \
		echo "building the linters into $(TOOLS), once (about a minute)"; \
		mkdir -p $(TOOLS).tmp && cd tools && GOWORK=off GOFLAGS= $(GO) build -o $(TOOLS).tmp/ tool && mv -T $(TOOLS).tmp $(TOOLS); \
	fi

.PHONY: lint
lint: rocksdb tools ## golangci-lint, and shellcheck where it is installed
	$(TOOLS)/golangci-lint run ./...
	@if command -v shellcheck >/dev/null; then shellcheck -x scripts/*.sh scripts/pre-commit .ci/run; \
		else echo "shellcheck is not installed: scripts not checked"; fi

.PHONY: fmt
fmt: tools ## gofumpt and import order
	$(TOOLS)/golangci-lint fmt ./...

.PHONY: vuln
vuln: rocksdb tools ## known vulnerabilities in what we call
	$(TOOLS)/govulncheck ./...

.PHONY: tidy-check
tidy-check: setup ## go.mod and go.sum are as go mod tidy leaves them
	GOWORK=off $(GO) mod tidy -diff
	cd tools && GOWORK=off $(GO) mod tidy -diff
	cd tests/interop/goclient && GOWORK=off $(GO) mod tidy -diff

.PHONY: check-clean
check-clean: ## nothing in the work tree is changed or untracked
	@changes=$$(git status --porcelain); if [ -n "$$changes" ]; then \
		echo "the work tree is not clean:"; echo "$$changes"; exit 1; fi

.PHONY: hooks
hooks: ## use scripts/pre-commit as this clone's commit hook
	ln -sf ../../scripts/pre-commit .git/hooks/pre-commit

.PHONY: ci
ci: ## what CI runs
	.ci/run
