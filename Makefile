# Targets of this repository. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

export CGO_ENABLED ?= 0
SEEDS  ?= 200
SEED   ?=
ROUNDS ?= 20
SCENARIO ?= broker-scaling
# Also where the toolchain stamps no commit: two builds have to be told apart.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X main.version=$(VERSION))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/ister and bin/scenario, static
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/ister ./cmd/scenario

.PHONY: install
install: ## go install both binaries
	go install -trimpath -ldflags '$(LDFLAGS)' ./cmd/ister ./cmd/scenario

.PHONY: check
check: fmt vet words test sim ## what every change must pass: fmt, vet, words, archtest, unit, stories, simulation

.PHONY: fmt
fmt: ## fail on files that gofmt would change
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-clean:"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet ./...

.PHONY: words
words: ## fail on words that the vocabulary bans
	go test -count=1 -run TestVocabulary ./cmd/internal/archtest

.PHONY: test
test: ## all tests
	go test ./...

.PHONY: race
race: ## all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race ./...

.PHONY: sim
sim: ## simulate whole clusters: SEEDS=200 for seeds 1..200, SEED=7 for one with its trace
	go run ./broker/internal/sim/cmd $(if $(SEED),-seed $(SEED) -trace,-seeds $(SEEDS))

.PHONY: plants
plants: ## build the simulator with each planted bug; it must catch every one
	./broker/internal/sim/plants.sh

.PHONY: scenarios
scenarios: build ## run SCENARIO=broker-scaling on every setup of this machine, and print criteria by setup
	./scenarios/everywhere.sh $(SCENARIO)

.PHONY: byhand
byhand: build ## do what the skills tell a person to type, line by line (root, kcat, jq, curl)
	bin/ister scenario skills try --ister-bin bin/ister

.PHONY: browser
browser: ## report.html in headless Chromium (needs chromium)
	go test -tags browser -count=1 -timeout 5m ./scenarios/internal/report

.PHONY: mcp-e2e
mcp-e2e: ## an MCP client drives a scenario on real brokers, step by step
	go test -tags e2e -count=1 -timeout 5m -run ForeignClient ./mcp

.PHONY: containers
containers: ## conformance of every setup, with Docker and root
	CGO_ENABLED=0 go test -tags containers -count=1 -timeout 40m ./setups/setuptest ./setups/netns

.PHONY: chaos
chaos: ## kill -9 and restart random brokers under load, ROUNDS=20 times
	go run ./cmd/scenario run kill-and-recover --param rounds=$(ROUNDS)

.PHONY: bench
bench: ## figures: throughput, idle cost, gaps (prints; asserts nothing)
	go run ./cmd/internal/bench

.PHONY: proto
proto: ## regenerate admin/adminv1 (needs protoc, libprotobuf-dev, protoc-gen-go, protoc-gen-connect-go)
	protoc -I . --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,simple admin/adminv1/*.proto

.PHONY: clean
clean: ## remove what builds and runs left in this tree
	rm -rf bin runs ister-data
