# Needs Python 3.11 or newer and a Rust toolchain; everything else is installed into .venv.
#   make setup   install the package (release build) and every plugin into .venv
#   make bench   setup, then replay the shipped trace under a choice of policies
#   make check   the inner loop, under a minute: format, lints, types, and the tests that find most in a minute
#   make test    every test but the slow, each random one over the same few cases: test-rust, test-python
#   make test-slow  those that take many seconds each: clean environments, whole traces
#   make test-all  every test, each random one over all its cases
#   make soak    random calls from another seed each time, many more of them (STEPS=1000000 SEED=...)
#   make lint    check format, lints and types; any finding is an error: lint-rust, lint-python
#   make mutants break the core on purpose, one mutant at a time; a test must fail each time
#   make instructions         count the hot paths' instructions (needs valgrind); compare with the record
#   make instructions-record  rewrite that record, perf/instructions.toml
#   make fuzz    look for inputs that break the core, ten minutes per target (FUZZ_SECONDS=...)
#   make docs    build the documentation as a site, target/site/index.html, and look at it in a browser
#   make stubs   regenerate python/kvframe/_core.pyi from the Rust sources
#   make licences  rewrite LICENSES-RUST.txt, after a change of Cargo.lock
#   make dist    wheels for x86-64 and aarch64, source distributions, plugins and crates, into dist (HOME_URL=https://...)
#   make dist-check  install what make dist built into clean environments, and use it
#   make clean   remove .venv, target and the built extension

PYTHON ?= python3
STEPS ?= 1000000
ifndef SEED
SEED := $(shell date +%s)
endif
VENV := .venv
BIN := $(VENV)/bin
BUILT := $(VENV)/.built
PLUGGED := $(VENV)/.plugged
SPHINX := $(VENV)/.sphinx
MOONCAKE := $(VENV)/.mooncake
STUBS := target/stubs/kvframe/_core.pyi

PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
RUST := $(shell find rust \( -path rust/fuzz -o -path '*/tests' \) -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print) Cargo.toml Cargo.lock
FUZZ_SECONDS ?= 600
QUIET := --quiet --disable-pip-version-check
CLIPPY := PYO3_PYTHON='$(CURDIR)/$(BIN)/python' cargo clippy --quiet --locked
CLEAN_ENV := env -u PYTHONPATH -u CONDA_PREFIX VIRTUAL_ENV='$(CURDIR)/$(VENV)'
# Python compiles the modules that are imported; pip would compile 80 MB of them.
export PIP_NO_COMPILE := 1
# Where this is set, every process that a test starts would compile all of kvframe anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup bench check test test-rust test-python test-slow test-all soak lint lint-rust lint-python \
	mutants instructions instructions-record fuzz docs stubs licences dist dist-check clean
.DELETE_ON_ERROR:

setup: $(PLUGGED)

bench: setup
	$(BIN)/kvframe bench

# What a random test tries depends on no luck: proptest draws from this seed, all else from a fixed one.
export PROPTEST_RNG_SEED ?= 20261
# One process more than there are cores: tests that wait for a server leave a core idle.
PYTEST := $(BIN)/python -m pytest --numprocesses $(shell expr $$(nproc) + 1) --dist loadfile
# What make check runs: hand-written rules and both models, which say most a second. What both indexes
# serve it asks of the hash index alone.
FAST := rules verbs defects groups property
FOLDERS := tests/manager tests/oracle tests/retention tests/slots tests/router tests/tier
# What a change of the core forgets: the policy's twin, a mutant's text, a row of the pages.
FOLDERS += tests/policies/test_order.py tests/mutants/test_mutants.py \
	tests/docs/test_configuration.py tests/docs/test_policies.py tests/docs/test_architecture.py

check: setup
	cargo fmt --all --check
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(CLIPPY) --package kvframe-core --all-targets -- -D warnings
	$(BIN)/mypy
	$(BIN)/lint-imports
	KVFRAME_RUNS=4 KVFRAME_SCRIPTS=20 cargo test --quiet --locked -p kvframe-core $(FAST:%=--test %)
	KVFRAME_STEPS=2000 $(PYTEST) -m 'not slow' -k 'not radix' $(FOLDERS)

test: setup test-rust test-python

test-rust:
	cargo test --locked

test-python: setup $(MOONCAKE)
	$(PYTEST) -m 'not slow'

test-slow: setup $(SPHINX)
	$(PYTEST) -m slow

test-all: setup $(MOONCAKE) $(SPHINX)
	KVFRAME_RUNS=200 KVFRAME_SCRIPTS=400 cargo test --locked
	TENANT_REQUESTS=100000 cargo test --locked --release -p kvframe-core --test tenants by_option
	KVFRAME_TESTS=all $(PYTEST)

soak: export KVFRAME_SEED = $(SEED)
soak: export PROPTEST_RNG_SEED = $(SEED)
soak: setup
	@echo "again: make soak SEED=$(SEED)"
	$(BIN)/python -m pytest --hypothesis-profile=default --hypothesis-seed=$(SEED) tests/oracle --steps $(STEPS)
	KVFRAME_TIER_STEPS=$(STEPS) $(BIN)/python -m pytest tests/tiers/test_soak.py
	KVFRAME_TIER_STEPS=100000 $(BIN)/python -m pytest tests/tiers/test_unruly.py
	env -u KVFRAME_SEED KVFRAME_FROM=$(SEED) KVFRAME_SCRIPTS=20000 KVFRAME_RUNS=4000 \
		cargo test --locked -p kvframe-core --test property
	PROPTEST_CASES=100000 cargo test --locked -p kvframe-core --test router --test router_full

lint: lint-rust lint-python

lint-rust: setup
	cargo fmt --all --check
	cargo fmt --manifest-path rust/fuzz/Cargo.toml --check
	$(CLIPPY) --workspace --all-targets -- -D warnings

lint-python: setup $(STUBS)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest kvframe._core
	$(BIN)/lint-imports
	diff -u python/kvframe/_core.pyi $(STUBS) || { echo "run: make stubs"; exit 1; }

mutants: setup
	$(BIN)/python tests/mutants/run.py

instructions: setup
	$(BIN)/python -m perf.instructions

instructions-record: setup
	$(BIN)/python -m perf.instructions --record

fuzz:
	rust/fuzz/run $(FUZZ_SECONDS)

docs: setup $(SPHINX)
	rm -rf target/site
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site -d target/site-trees . target/site
	KVFRAME_SITE=target/site $(BIN)/python -m pytest tests/docs/test_site.py tests/docs/test_links.py

stubs: $(STUBS)
	cp $(STUBS) python/kvframe/_core.pyi

licences: $(PLUGGED)
	$(BIN)/python -m release.licences

# What a release needs lies in an environment of its own: zig, among others, which is a whole C compiler.
RELEASE := target/dist/venv

$(RELEASE)/bin/twine:
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install $(QUIET) 'maturin[zig]>=1.16,<2' 'flit-core>=3.12,<5' build twine auditwheel

dist: $(RELEASE)/bin/twine
	$(RELEASE)/bin/python -m release.dist $(HOME_URL:%=--home-url='%') $(FILES_URL:%=--files-url='%')

dist-check:
	$(PYTHON) -m release.check

clean:
	rm -rf $(VENV) target python/kvframe/_core.abi3.so

# If the extension module of the editable install is gone, it has to be built again.
ifeq ($(wildcard python/kvframe/_core.abi3.so),)
.PHONY: $(BUILT)
endif

$(BUILT): $(RUST) pyproject.toml | $(BIN)/maturin
	$(CLEAN_ENV) $(BIN)/maturin develop --release --locked --extras dev
	touch $@

$(PLUGGED): $(BUILT) $(PLUGINS:%=%/pyproject.toml)
	$(CLEAN_ENV) $(BIN)/pip install $(QUIET) --no-build-isolation $(PLUGINS:%=--editable './%')
	touch $@

# Mooncake has no wheel for some machines; there the tests of that store are left out.
$(MOONCAKE): $(PLUGGED)
	$(CLEAN_ENV) $(BIN)/pip install $(QUIET) --no-build-isolation --editable './plugins/kvframe-mooncake[cpu]' || \
		echo "make: no Mooncake Store for this machine: its tests are left out" >&2
	touch $@

# What builds the site is asked for by its name in pyproject.toml; kvframe itself is installed already.
$(SPHINX): $(PLUGGED) pyproject.toml
	$(CLEAN_ENV) $(BIN)/pip install $(QUIET) $$($(BIN)/python -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	touch $@

$(BIN)/maturin:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kvframe needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@cargo --version >/dev/null || { echo "kvframe needs Rust: https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(CLEAN_ENV) $(BIN)/pip install $(QUIET) 'maturin>=1.16,<2'

# In the profile of the extension, so that nothing is compiled again.
$(STUBS): $(BUILT)
	$(CLEAN_ENV) $(BIN)/maturin generate-stubs --quiet --locked --profile release --interpreter $(BIN)/python --out target/stubs
	$(BIN)/ruff format --quiet $@
