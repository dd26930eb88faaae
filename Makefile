# The project's commands. `make run` and `make test` need Python 3.11 to 3.14 and nothing else: they make .venv from a
# lock with hashes, and make it again when a lock changes.

PYTHON ?= python3
SAMPLE_PAGES ?= 8000
UPGRADE ?=
CAMPAIGN ?=
FILES ?=
MINUTES := 8
MINUTES_ALL := 35

VENV := .venv
PY := $(VENV)/bin/python
# Of the lock alone: without --no-deps, pip would ask the index for the newest version of what a package depends on.
# Python compiles what is imported, a small part, by itself.
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --require-virtualenv --no-deps --no-compile
LOCKED := --require-hashes --only-binary :all: --requirement
# Tests that have passed, for `make test-all`, which runs the others. With a space, pytest would take the file for a test.
PYTEST := $(PY) -m pytest --passed=build/passed
# Tests share two processors and wait for other programs: what fails beside others must pass alone. Both runs are printed.
TESTED = $(PYTEST) $(1) $(2) || { echo "== What failed beside others runs again, alone"; $(PYTEST) -x $(2); }
COMPILE := $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)
GIT := git -c safe.directory="$(CURDIR)"
LOCK := $(COMPILE) pyproject.toml
SAMPLE := build/sample/pages.jsonl
VERDICTS := build/verdicts.jsonl

# Tables are drawn for a terminal of this width where there is none.
export COLUMNS ?= 100

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run warm unit test test-all fresh bounds turned coverage check bench bench-kafka bench-report bench-compare evaluate train campaign cluster site dist man broker broker-stop format lock clean

help: ## List these commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/.run warm ## Judge a sample crawl with planted near-duplicates, and score the verdicts
	@rm -rf build/sample build/index $(VERDICTS)*
	@echo "== A sample crawl of $(SAMPLE_PAGES) records"
	@$(PY) -m streamer sample build/sample --pages $(SAMPLE_PAGES)
	@echo "== Its verdicts, with a lasting index in build/index"
	@$(PY) -m streamer replay $(SAMPLE) --verdicts $(VERDICTS) --index build/index
	@echo "== How right they are, against the exact resemblance of the pages"
	@$(PY) -m streamer score $(SAMPLE) $(VERDICTS)
	@echo "== A verdict, of $(VERDICTS)"
	@grep -m 1 '"basis":"signature","similarity":0' $(VERDICTS)

warm: $(VENV)/.run ## Compile the kernels (under a minute, once after a change of the sources)
	@echo "== Compiling the kernels, unless they are cached"
	@$(PY) -m streamer warm

unit: $(VENV)/.dev ## Run the unit tests: after a change of a line, under 3 minutes, with Python alone
	$(PY) -m streamer warm --text main
	$(PY) -m pytest -n 2 -k "not kill" --ignore tests/unit/benchmarks tests/unit

test: ## Run all checks, and the tests that need nothing but Python (and a broker, where there is Java)
	@echo "== All checks and tests, but for those of 'make test-all': about $(MINUTES) minutes on two cores"
	@rm -f build/passed
	@$(MAKE) --no-print-directory check
	@mkdir -p build && .ci/tools broker 2> build/tools.log || true
	$(PY) -m streamer warm --text main
	$(call TESTED,-n 3 --durations=20,--quick)

test-all: $(VENV)/.dev ## Run what `make test` has left out: browser, cluster, images, campaigns (as root, on Debian)
	@echo "== The tests that have not passed yet: about $(MINUTES_ALL) minutes on two cores, and 15 more to build their tools"
	@.ci/tools || true
	$(PY) -m streamer warm --text main
	$(call TESTED,-n 4 --maxschedchunk 1 --durations=20,--ignore tests/cluster --ignore tests/image)
	$(call TESTED,-rP,tests/image)
	@echo "== A cluster, which mostly waits, beside kernels with every index checked"
	@($(PYTEST) -s tests/cluster > build/cluster.log 2>&1; echo $$? > build/cluster.status) & \
	$(MAKE) --no-print-directory bounds; bounds=$$?; wait; cat build/cluster.log; \
	[ $$bounds = 0 ] && [ "$$(cat build/cluster.status)" = 0 ]

fresh: ## Run the README's two commands on a fresh machine, as a user and as root (as root, on Debian)
	.ci/pristine user 'make run; make test'
	.ci/pristine root 'make run; make test'

bounds: export NUMBA_BOUNDSCHECK = 1
bounds: $(VENV)/.dev ## Run what goes through kernels with every index checked
	$(PY) -m streamer warm --text main
	$(PY) -m pytest -n 2 -k "not forged and not damage" tests/property tests/integration/test_bad_input.py tests/integration/test_replay.py

turned: $(VENV)/.dev ## Turn each bound of the index by hand: the tests next to it must notice (40 minutes)
	$(PY) -m tests.turned $(FILES)

coverage: $(VENV)/.dev ## Tell which lines the quicker tests do not reach
	$(PY) -m pytest -n 2 --cov --cov-report=term tests/unit tests/property tests/contract tests/quality

check: $(VENV)/.dev ## Run the checks without the tests
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	@$(PY) -m pytest -q -s tests/contract/test_budget.py

bench: $(VENV)/.bench ## Measure speed and quality, ours and the peers'
	$(PY) benchmarks/run.py

bench-kafka: $(VENV)/.bench ## Measure speed through Kafka, with a broker of its own
	$(PY) benchmarks/run_kafka.py

bench-report: $(VENV)/.bench ## Write docs/benchmarks.md from what the benchmarks have measured
	$(PY) benchmarks/report.py

evaluate: $(VENV)/.bench ## Judge labelled pages by every preset and text; write docs/quality.md, docs/main-text.md
	$(PY) benchmarks/presets.py
	$(PY) benchmarks/main_text.py ../shared/data --page docs/main-text.md $(foreach set,kinds templates,--only $(set))

bench-compare: $(VENV)/.bench ## Compare what was measured with benchmarks/baseline.json
	$(PY) benchmarks/compare.py

train: $(VENV)/.bench ## Train the models of main text again, from ../shared/data: they come out byte for byte
	$(PY) benchmarks/train.py --out streamer/text/main_text.json
	$(PY) benchmarks/train.py --sites --out streamer/text/main_text_sites.json

campaign: $(VENV)/.dev ## Run chaos, damage and simulation; write docs/reliability.md (hours; CAMPAIGN=--short: as in CI)
	$(PY) -m streamer warm --text main
	PYTHONPATH=. $(PY) -m tests.campaign build/campaign $(CAMPAIGN) --report docs/reliability.md

cluster: $(VENV)/.dev ## Run the manifests on a Kubernetes of its own; write docs/kubernetes.md (as root)
	deploy/kubernetes/try run

site: $(VENV)/.dev ## Make a site of all documents: build/site/index.html
	$(PY) -m sphinx -W --keep-going -q -b html -c docs . build/site
	@echo '<!DOCTYPE html><title>streamer</title><meta http-equiv=refresh content="0; url=docs/index.html">' > build/site/index.html

dist: $(or $(wildcard $(VENV)/.dev),$(VENV)/.run) ## Build the wheel of the last commit into build/dist: the same bytes each time
	@rm -rf build/dist build/source && mkdir -p build/source
	@umask 022; $(GIT) archive HEAD | tar --extract --no-same-permissions --directory build/source && \
	SOURCE_DATE_EPOCH=$$($(GIT) log -1 --format=%ct) $(PY) -m pip --disable-pip-version-check wheel --quiet --no-index \
		--no-deps --no-build-isolation --wheel-dir build/dist build/source
	@rm -rf build/source && ls build/dist/*.whl

man: $(VENV)/.run ## Write a manual page for each command into build/man, of its help
	@$(PY) deploy/man.py build/man && ls build/man

broker: ## Start Apache Kafka on port 9092, with its data in build/broker
	@deploy/broker/broker start build/broker

broker-stop: ## Stop it
	@deploy/broker/broker stop build/broker

format: $(VENV)/.dev ## Bring all sources into form
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

lock: $(VENV)/.dev ## Pin all dependencies again (UPGRADE=--upgrade: at their newest versions)
	$(COMPILE) requirements/installer.in --output-file requirements/installer.lock
	$(COMPILE) requirements/pywb.in --output-file requirements/pywb.lock
	$(COMPILE) requirements/spark.in --output-file requirements/spark.lock
	$(LOCK) --extra analysis --extra console --extra object-store --extra registry requirements/build.in --output-file requirements/run.lock
	$(LOCK) --extra analysis --extra console --extra object-store --extra parquet --extra registry --extra dev --extra bench --constraint requirements/run.lock requirements/build.in --output-file requirements/dev.lock
	$(LOCK) --extra analysis --extra console --extra object-store --extra parquet --extra registry --extra bench --constraint requirements/dev.lock requirements/build.in --output-file requirements/bench.lock

clean: ## Remove everything that these commands have made
	rm -rf $(VENV) build examples/*/build .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made: requirements/installer.lock
	@.ci/make-venv "$(PYTHON)" $(VENV)
	@$(PIP) $(LOCKED) requirements/installer.lock
	@touch $@

# The project itself is built with the pinned setuptools, which is installed by then.
$(VENV)/.run $(VENV)/.dev $(VENV)/.bench: $(VENV)/.%: requirements/%.lock pyproject.toml | $(VENV)/.made
	@echo "== Installing requirements/$*.lock into $(VENV)"
	@$(PIP) $(LOCKED) requirements/$*.lock
	@PYTHONWARNINGS=ignore $(PIP) --no-build-isolation --editable .
	@touch $@
