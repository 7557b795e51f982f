# Everything a person does with this checkout. `make setup` is all that the others need, and they call it.

PYTHON ?= python3
BIN := .venv/bin
# Processes that the tests are dealt to, a file at a time: one more than CPUs, since tests also wait. Each takes 2 GB.
TEST_WORKERS ?= $(shell cpus=$$(nproc 2>/dev/null || echo 2); echo $$((cpus < 6 ? cpus + 1 : 6)))

.PHONY: help check setup setup-sdk setup-sdk3 setup-s3 setup-hub setup-browser setup-pythons image demo up test properties docs lint format
.PHONY: period truth bench soak doctor-scripts notebooks release screenshots clean

help:
	@echo "make demo    set up, train a GPT-2 compiled and natively through the SageMaker SDK, say what that brought;"
	@echo "             COMPILER=inductor, RUNTIME=docker; REPEAT=3: three pairs more, for a verdict on whole jobs"
	@echo "make check   lint, types and the nearest tests of what differs from main"
	@echo "make test    set up, run one proof of each thing"
	@echo "             ALL=1: every test that this machine can run; TESTS=tests/unit/doctor: these"
	@echo "make up      start the server"
	@echo "make properties  20,000 valid and 20,000 broken CreateTrainingJob bodies"
	@echo "make truth   reported steps beside the clocks of 90 scripts: each compiler, loop, reading, one and two workers"
	@echo "make period  ten training scripts of 2021 to 2024, natively and compiled, each by one and by four workers"
	@echo "make docs    the pages of docs/reference that are made of the program: API, doctor, commands, settings"
	@echo "make screenshots  docs/images: pictures of the pages, of jobs that it trains"
	@echo "make doctor-scripts  examples/best_practices, run and recorded"
	@echo "make notebooks  examples/notebooks, run and written back with their outputs"
	@echo "make bench   speed, load and cost, side by side with the peers: docs/benchmarks.md"
	@echo "make bench-SECTION  one section of it: api s3 logs job tuning pipelines idle concurrency beside, or one of another page:"
	@echo "             models compiled fixed step slurm first-job"
	@echo "make soak    10,000 jobs and 1,000,000 lines through one server: docs/reliability.md"
	@echo "make release VERSION=X.Y.Z  check a release, build its wheel; refuses what is not true"
	@echo "make setup | setup-sdk | setup-sdk3 | setup-s3 | setup-hub | setup-browser | setup-pythons"
	@echo "make image | lint | format | clean"

# torch, torch_xla and the tools, into .venv; the SageMaker SDK v2 and the AWS CLI into .venv-sdk, v3 into .venv-sdk3
# (their pins differ), other people's S3 clients into .venv-s3, and boto3 1.26 into a directory of it, clients of the Hugging Face Hub into
# .venv-hub, and old ones into directories of it.
setup: .venv/.ready
setup-sdk: .venv-sdk/.ready
setup-sdk3: .venv-sdk3/.ready
setup-s3: .venv-s3/.ready
setup-hub: .venv-hub/.ready
setup-browser: .axe/.ready
setup-pythons: .venv-pythons/.ready

# uv installs, or pip where uv cannot be had. uv and pip print hundreds of lines: they are in setup.log of the
# environment, which is shown when a command fails.
LOG = $(@D)/setup.log
SHOW_LOG = { cat "$(LOG)"; echo "This failed; the lines above are $(LOG)."; exit 1; }
MAKE_ENVIRONMENT = $(PYTHON) .ci/environments.py $(@D) && touch $@

# SAGELET_TORCH_BUILD=cuda installs torch with NVIDIA's libraries. Whoever sets it wants it to happen.
ifdef SAGELET_TORCH_BUILD
.PHONY: .venv/.ready
endif
.venv/.ready: pyproject.toml .ci/environments.py images/training/install_torch.py images/training/requirements-cpu-plugin.txt $(wildcard images/training/torch_without_cuda/*.py)
	@$(MAKE_ENVIRONMENT)

.venv-sdk/.ready: tests/clients-requirements.txt .ci/environments.py
	@$(MAKE_ENVIRONMENT)

.venv-sdk3/.ready: tests/clients-v3-requirements.txt .ci/environments.py
	@$(MAKE_ENVIRONMENT)

.venv-s3/.ready: tests/s3-clients-requirements.txt .ci/environments.py
	@$(MAKE_ENVIRONMENT)

.venv-hub/.ready: tests/hub-clients-requirements.txt .ci/environments.py
	@$(MAKE_ENVIRONMENT)

# Environments of Python 3.10 to 3.13, of those that are here, for the wheel. It says which are not, and looks again next time.
.venv-pythons/.ready: pyproject.toml tests/support/pythons.py
	@echo "setup-pythons: sagelet's dependencies for each Python from 3.10 to 3.13 into .venv-pythons: 0.8 GB; $(LOG)"
	@mkdir -p $(@D)
	@$(PYTHON) tests/support/pythons.py "$$(cd $(@D) && pwd -P)" >"$(LOG)" 2>&1 || $(SHOW_LOG)
	@grep "^Python" "$(LOG)"

# axe-core comes in a wheel, so that no npm is needed; what that wheel depends on is another way to drive a browser.
.axe/.ready: tests/axe-requirements.txt setup
	@mkdir -p .axe
	@test -e .axe/axe_playwright_python || $(BIN)/python .ci/environments.py install --no-deps --target "$$(cd .axe && pwd -P)" -r $< >"$(LOG)" 2>&1 || $(SHOW_LOG)
	@touch $@

# Without CUDA, too; SAGELET_TORCH_BUILD=cuda forces the other build.
image: setup
	$(BIN)/sagelet image build

demo: setup setup-sdk
	$(BIN)/python examples/gpt2/demo.py $(if $(COMPILER),--compiler $(COMPILER)) $(if $(RUNTIME),--runtime $(RUNTIME)) $(if $(REPEAT),--repeat $(REPEAT))

up: setup
	$(BIN)/sagelet up

PYTEST = $(BIN)/python -m pytest
IN_WORKERS = -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
# Targets that the tests TESTS name as a remedy for what is missing.
MISSING = env -u SAGELET_TEST_REQUIRE $(PYTEST) --collect-only -qq $(TESTS) | sed -n 's/^Left out .*`make \(setup-[a-z0-9]*\)`.*/\1/p'

ifdef TESTS
# A file is run in one process: its progress is seen, and `--pdb` in PYTEST_ARGS works.
test: setup
	@missing=$$($(MISSING)) && { test -z "$$missing" || $(MAKE) --no-print-directory $$missing; }
	$(PYTEST) $(if $(findstring .py,$(TESTS)),,$(IN_WORKERS)) $(TESTS) $(PYTEST_ARGS)
else ifdef ALL
test: setup setup-sdk setup-sdk3 setup-s3 setup-hub setup-browser setup-pythons
	@echo "make test ALL=1: every test that this machine can run, most of an hour on two cores"
	$(PYTEST) $(IN_WORKERS) $(PYTEST_ARGS)
else
test: setup setup-sdk
	@echo "make test: one proof of each thing; ten minutes on two cores is its aim; at the end it says what it left out"
	$(PYTEST) $(IN_WORKERS) --chosen $(PYTEST_ARGS)
endif

# Lint, types and the nearest tests of what differs from main. 90 seconds on two cores are its aim.
check: setup
	@PYTHONPATH=tests $(BIN)/python -m support.check

properties: setup
	$(BIN)/python -m pytest tests/unit/api/test_properties.py --hypothesis-profile=thorough $(PYTEST_ARGS)

period: setup
	SAGELET_TEST_PERIOD=all $(BIN)/python -m pytest tests/period $(PYTEST_ARGS)

truth: setup
	SAGELET_TEST_TRUTH=all $(BIN)/python -m pytest tests/xla/test_truth.py $(PYTEST_ARGS)

docs: setup
	$(BIN)/python docs/training_job_api.py
	$(BIN)/python docs/processing_job_api.py
	$(BIN)/python docs/pipeline_api.py
	$(BIN)/python docs/doctor_rules.py
	$(BIN)/python docs/command_line.py
	$(BIN)/python docs/settings_page.py
	PYTHONPATH=tests $(BIN)/python docs/layers_table.py

# Pictures of the pages for the documentation, of jobs that it trains. Needs Debian's chromium.
screenshots: setup
	$(BIN)/python docs/screenshots.py

# Runs every script of examples/best_practices and records what it reports, for the tests of the doctor's rules.
# SCRIPTS=stall: those with that in their names.
doctor-scripts: setup
	SAGELET_RECORD=1 $(BIN)/python -m pytest tests/xla/test_doctor_scripts.py $(if $(SCRIPTS),-k $(SCRIPTS)) $(PYTEST_ARGS)

# Runs examples/notebooks and writes them back with their pictures.
notebooks: setup setup-sdk
	SAGELET_RECORD=1 $(BIN)/python -m pytest tests/acceptance/test_notebooks.py $(PYTEST_ARGS)

# Everything docs/benchmarks.md shows, in one run, or one section: `make bench-api`. BENCH_ARGS="--scale short" takes
# seconds, BENCH_ARGS=--write puts the figures into the section's page.
bench: setup
	PYTHONPATH=tests $(BIN)/python -m bench $(BENCH_ARGS)

bench-%: setup
	PYTHONPATH=tests $(BIN)/python -m bench $* $(BENCH_ARGS)

# 10,000 jobs and 1,000,000 lines through one server; SOAK_ARGS=--write puts the table into docs/reliability.md.
soak: setup
	PYTHONPATH=tests $(BIN)/python -m reliability.soak $(SOAK_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=images/runtime $(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Makes no tag and publishes nothing: .github/workflows/release.yml does, for a pushed tag.
release: setup
	$(BIN)/python .ci/release.py $(VERSION) $(if $(TAGGED),--tagged)

clean:
	rm -rf .venv .venv-sdk .venv-sdk3 .venv-s3 .venv-hub .venv-pythons .axe .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
