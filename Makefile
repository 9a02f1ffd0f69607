# dnsdyno: `make demo` and `make test` do all the set-up themselves. `make help` lists the rest.

CARGO ?= cargo
OUT   ?= out
# Of `make test`; with `--features cluster/mpi` trials of many hosts are tested too, which needs Open MPI.
FEATURES ?=

# Where rustup puts cargo, for shells that have not heard of it.
export PATH := $(PATH):$(HOME)/.cargo/bin

DNSDYNO = target/release/dnsdyno
# Debian packages, each with the program that shows it is there.
DEMO_PACKAGES = unbound bind9:named pdns-recursor:pdns_recursor knot-resolver:kresd
TEST_PACKAGES = $(DEMO_PACKAGES) nsd knot:knotd yadifa:yadifad pdns-server:pdns_server \
	pdns-backend-bind:/usr/lib/*/pdns/libbindbackend.so pdns-backend-lmdb:/usr/lib/*/pdns/liblmdbbackend.so dnsdist dnsmasq-base:dnsmasq \
	nginx-light:nginx libnginx-mod-stream:/usr/lib/nginx/modules/ngx_stream_module.so curl haproxy nghttp2-client:h2load bind9-dnsutils:dig fstrm-bin:fstrm_capture knot-dnsutils:kxdpgun dnsperf ethtool tcpdump iproute2:ip \
	bind9-utils:dnssec-signzone knot-dnssecutils:kzonesign ldnsutils:ldns-signzone chromium \
	python3-venv:/usr/lib/python3*/ensurepip strace eatmydata radvd tayga procps:sysctl prometheus:promtool \
	dpkg-dev:dpkg-shlibdeps binutils:strip man-db:man util-linux:setpriv \
	openssh-server:sshd openssh-client:ssh \
	apparmor:apparmor_parser clang-14 llvm-14:llvm-strip-14 libbpf-dev:/usr/include/bpf/bpf_helpers.h

# Open MPI, and what builds its bindings.
CLUSTER_PACKAGES = openmpi-bin:mpirun libopenmpi-dev:mpicc libclang-14-dev:/usr/lib/llvm-14/lib/libclang.so \
	iproute2:ip tcpdump faketime procps:kill

.PHONY: build programs demo check test lint bench fuzz man dist deb cluster cluster-packages cluster-test clean help

build: programs ## build the programs, and the example server of docs/experiments/dns64-threading.md
	$(CARGO) build --release --locked --package dns64d --example threads

# Without the example, for which many crates are compiled once more, with the features that the tests of its crate want.
programs: ## build the programs (target/release/dnsdyno and dns64d), their debug information beside them
	$(CARGO) build --release --locked
	scripts/split-debug target/release/dnsdyno target/release/dns64d

demo: ## measure the capacity of the DNS64 servers in minutes; installs the latter when root
	scripts/install-packages $(DEMO_PACKAGES)
	$(MAKE) programs
	$(DNSDYNO) demo --output $(OUT) || [ -s $(OUT)/demo.json ]

check: ## formatting, unit tests and the form of the code: no root, no servers
	$(CARGO) fmt --all --check
	$(CARGO) test --workspace --locked --lib --bins --test crates --test layers --test shapes

# Most of a test is a wait for processes and clocks, and those that measure take turns.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test: ## run all tests; installs the real servers they use when root
	scripts/install-packages $(TEST_PACKAGES)
	scripts/install-aioquic
	scripts/install-duckdb
	scripts/install-coredns
	scripts/install-resolved
	env --default-signal=HUP,INT,QUIT scripts/run-tests $(CARGO) test --workspace --locked $(FEATURES) # as jobs of a script begin, they are ignored

lint: ## formatting, clippy and rustdoc with warnings denied; words of the pages; that the fuzz targets build; licences and advisories where cargo-deny is; the age of libraries
	@if command -v python3 >/dev/null; then scripts/words; else echo "python3 is not installed: words not checked"; fi
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v c++ >/dev/null; then CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target} $(CARGO) check --manifest-path fuzz/Cargo.toml --locked; \
	else echo "there is no C++ compiler, which libFuzzer needs: fuzz targets not checked"; fi
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@if command -v cargo-deny >/dev/null; then checks="bans licenses sources"; \
	if $(CARGO) deny --log-level off fetch db; then checks="$$checks advisories"; else echo "the list of advisories cannot be fetched: not checked"; fi; \
	$(CARGO) deny --log-level error --locked check $$checks; \
	else echo "cargo-deny is not installed: licences and advisories not checked (cargo install --locked cargo-deny)"; fi
	@if command -v python3 >/dev/null; then scripts/dist.py old x86_64-unknown-linux-gnu; fi

bench: ## time the hot paths (divan)
	$(CARGO) bench --workspace --locked --bench '*'

fuzz: ## run each fuzz target for 30 s (needs nightly and cargo-fuzz)
	scripts/fuzz 30

man: build ## write the man pages to out/man
	$(DNSDYNO) man $(OUT)/man
	target/release/dns64d --man $(OUT)/man

dist: ## build the files of a release in out/dist: static programs as archive, Debian packages and wheel, sums, SBOM
	scripts/dist $(OUT)/dist

deb: build ## build the Debian packages of dnsdyno and dns64d (needs dpkg-dev)
	scripts/build-deb target/release $(OUT)

cluster: cluster-packages ## build dnsdyno-cluster for many hosts (target/release) and run its tests; installs Open MPI when root
	$(CARGO) build --release --locked --package cluster --features mpi
	$(MAKE) cluster-test

# The whole workspace, so that the other crates have the features of `make lint` and `make test` and are not built again.
# `several_testers` are tests of cli: with them comes the program dnsdyno, which starts jobs.
cluster-test:
	$(CARGO) clippy --workspace --all-targets --locked --features cluster/mpi -- -D warnings
	$(CARGO) test --workspace --locked --features cluster/mpi --test suite several_testers::
	$(CARGO) test --workspace --locked --features cluster/mpi --test mpi

cluster-packages:
	scripts/install-packages $(CLUSTER_PACKAGES)

clean: ## remove what was built
	$(CARGO) clean
	rm -rf $(OUT)

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 8
