"""What every bench under `pytest sim/` needs: Verilator on PATH and the choice of simulators."""

import os
import shutil

import pytest

from bench import simulators, verilator_bin

os.environ["PATH"] = f"{verilator_bin()}{os.pathsep}{os.environ['PATH']}"
if shutil.which("ccache"):
    os.environ.setdefault("OBJCACHE", "ccache")


@pytest.fixture(params=simulators())
def simulator(request):
    """Each bench that takes this runs once a simulator: two tools are two opinions."""
    return request.param
