# Voxpath: `make run` answers a recorded question, `make test` runs every test. Both set up what they need first.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Options of host/run.py, e.g. make run ARGS='--ask "What is the capital of France?"'
ARGS   ?=

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup setup-synth setup-bench setup-tensorrt run test bench lint format regs synth bitstream formal coverage clean

help:
	@echo "make run            answer a recorded question through the simulated board (ARGS='...' for host/run.py)"
	@echo "make test           run every test: pytest sim/ and pytest tests/"
	@echo "make bench          measure everything the README quotes; plots go to build/bench/ (over an hour)"
	@echo "make synth          area of every module on the KV260's family and on ECP5, beside its budget"
	@echo "make bitstream      a bitstream for BOARD=ulx3s (open tools) or BOARD=kv260 (needs Vivado)"
	@echo "make formal         prove what must never happen: torn frames, stray addresses, broken handshakes"
	@echo "make coverage       line and toggle coverage of the RTL by pytest sim/, as HTML"
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

# What only some commands need: the open synthesis and proof tools, the peers of the benches, TensorRT's builder (whose
# tests are skipped without it).
setup-synth: $(VENV)/.installed-synth
setup-bench: $(VENV)/.installed-bench
setup-tensorrt: $(VENV)/.installed-tensorrt

$(VENV)/.installed-%: setup
	@echo "Installing Python packages for $* into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

# ---- what people use -----------------------------------------------------------------------------------------------

run: setup
	@$(PY) host/run.py $(ARGS)

test: setup
	@$(PY) -m voxpath.models
	@$(PY) -m pytest -q -n auto sim/
	@$(PY) -m pytest -q tests/

BENCHES := response wer board ring resampler denoiser vad weights echo hours

bench: setup-bench
	@failed=""; for name in $(BENCHES); do \
		echo; echo "== tests/bench/$$name.py"; $(PY) tests/bench/$$name.py || failed="$$failed $$name"; \
	done; if [ -n "$$failed" ]; then echo "Missed their targets:$$failed" >&2; exit 1; fi

# ---- the RTL as hardware --------------------------------------------------------------------------------------------

BOARD ?= kv260

synth: setup-synth build/regs/frontend_regs.sv
	@$(PY) fpga/synth.py

bitstream: setup-synth build/regs/frontend_regs.sv
	@$(PY) fpga/bitstream.py $(BOARD)

formal: setup-synth build/regs/frontend_regs.sv
	@$(PY) fpga/formal/run.py

coverage: setup
	@rm -rf build/coverage
	@VOXPATH_COVERAGE=1 $(PY) -m pytest -q -n auto sim/ -k "not icarus"
	@$(PY) sim/coverage.py

# ---- looking after the sources -------------------------------------------------------------------------------------

RTL := $(sort $(wildcard fpga/rtl/*.sv))
SV  := $(RTL) $(wildcard fpga/boards/*/*.sv fpga/formal/*.sv sim/board/*.sv sim/rtl/*.sv)

lint: setup build/regs/frontend_regs.sv
	@ruff check .
	@ruff format --check .
	@for file in $(SV); do verible-verilog-format --column_limit=120 --verify $$file >/dev/null || exit 1; done
	@verible-verilog-lint --rules_config fpga/verible.rules $(SV)
	@$$($(PY) -c 'import sys; sys.path.insert(0, "sim"); import bench; print(bench.verilator_bin())')/verilator \
		--quiet --lint-only -Wall --top frontend fpga/lint.vlt build/regs/frontend_regs_pkg.sv build/regs/frontend_regs.sv $(RTL)
	@$$($(PY) -c 'import sys; sys.path.insert(0, "sim"); import bench; print(bench.verilator_bin())')/verilator \
		--quiet --lint-only -Wall --top ulx3s fpga/lint.vlt fpga/boards/ulx3s/lint.vlt -y fpga/boards/ulx3s -y sim/rtl \
		build/regs/frontend_regs_pkg.sv build/regs/frontend_regs.sv $(RTL) fpga/boards/ulx3s/ulx3s.sv
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
