# dnsdyno: `make demo` and `make test` do all the set-up themselves. `make help` lists the rest.

CARGO ?= cargo
OUT   ?= out

.PHONY: build demo test lint bench fuzz man clean help

build: ## build the program (target/release/dnsdyno)
	$(CARGO) build --release --locked

demo: ## measure the DNS64 servers of this machine the RFC 8219 way, short form
	scripts/install-packages unbound bind9
	$(CARGO) build --release --locked
	mkdir -p $(OUT)
	target/release/dnsdyno run experiments/dns64-rfc8219.toml --quick --json $(OUT)/demo.json
	@echo "result: $(OUT)/demo.json"

test: ## run all tests; installs the real servers they need when root
	scripts/install-packages unbound bind9 bind9-dnsutils nsd knot knot-dnsutils dnsperf tcpdump iproute2
	$(CARGO) test --workspace --locked

lint: ## formatting, clippy and documentation with warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --log-level error check; else echo "cargo-deny is not installed: licences and advisories not checked (cargo install cargo-deny)"; fi

bench: ## micro-benchmarks of the hot paths
	$(CARGO) bench --workspace

fuzz: ## each fuzz target for 30 s (needs a nightly toolchain and cargo-fuzz)
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is not installed: cargo install cargo-fuzz"; exit 1; }
	cd fuzz && for target in $$($(CARGO) +nightly fuzz list); do $(CARGO) +nightly fuzz run $$target -- -max_total_time=30 || exit 1; done

man: build ## write the man pages to $(OUT)/man
	target/release/dnsdyno man $(OUT)/man

clean: ## remove what was built
	$(CARGO) clean
	rm -rf $(OUT)

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)
