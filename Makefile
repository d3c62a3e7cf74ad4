# Voxpath: `make run` answers a recorded question, `make test` runs every test. Both set up what they need first.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Options of host/run.py, e.g. make run ARGS='--ask "What is the capital of France?"'
ARGS   ?=

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup run test bench lint format regs clean

help:
	@echo "make run            answer a recorded question through the simulated board (ARGS='...' for host/run.py)"
	@echo "make test           run every test: pytest sim/ and pytest tests/"
	@echo "make bench          measure response time, word error rate and the board's speed"
	@echo "make lint           ruff, verible and verilator over all sources"
	@echo "make format         let the formatters rewrite the sources"
	@echo "make regs           regenerate what is committed from fpga/regs/frontend.rdl"
	@echo "make clean          remove build/ and the virtual environment"

# ---- setting up ----------------------------------------------------------------------------------------------------

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@missing=""; \
	command -v g++ >/dev/null  || missing="$$missing g++"; \
	command -v make >/dev/null || missing="$$missing make"; \
	command -v perl >/dev/null || missing="$$missing perl"; \
	command -v $(PYTHON) >/dev/null || missing="$$missing python3"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ]; then echo "Missing:$$missing. Install with: sudo apt-get install$$missing" >&2; exit 2; fi; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "The host needs Python 3.11 or later; name one with make PYTHON=python3.11" >&2; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing Python packages into $(VENV) (about a minute the first time)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[cpu,sim,dev]'
	@touch $@

# ---- what people use -----------------------------------------------------------------------------------------------

run: setup
	@$(PY) host/run.py $(ARGS)

test: setup
	@$(PY) -m voxpath.models
	@$(PY) -m pytest -q -n auto sim/
	@$(PY) -m pytest -q tests/

bench: setup
	@$(PY) tests/bench/response.py
	@$(PY) tests/bench/wer.py
	@$(PY) tests/bench/board.py

# ---- looking after the sources -------------------------------------------------------------------------------------

RTL := $(sort $(wildcard fpga/rtl/*.sv))
SV  := $(RTL) $(wildcard sim/board/*.sv sim/rtl/*.sv)

lint: setup build/regs/frontend_regs.sv
	@ruff check .
	@ruff format --check .
	@for file in $(SV); do verible-verilog-format --column_limit=120 --verify $$file >/dev/null || exit 1; done
	@verible-verilog-lint --rules_config fpga/verible.rules $(SV)
	@$$($(PY) -c 'import sys; sys.path.insert(0, "sim"); import bench; print(bench.verilator_bin())')/verilator \
		--quiet --lint-only -Wall --top frontend fpga/lint.vlt build/regs/frontend_regs_pkg.sv build/regs/frontend_regs.sv $(RTL)
	@echo "lint: clean"

format: setup
	@ruff check --fix .
	@ruff format .
	@verible-verilog-format --column_limit=120 --inplace $(SV)

regs: setup
	@$(PY) fpga/regs/generate.py host

build/regs/frontend_regs.sv: fpga/regs/frontend.rdl fpga/regs/generate.py
	@$(PY) fpga/regs/generate.py rtl build/regs

clean:
	rm -rf build $(VENV)
