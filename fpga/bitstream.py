"""Build a board's bitstream.

    python fpga/bitstream.py ulx3s    by Yosys, nextpnr-ecp5 and ecppack: build/ulx3s/voxpath.bit and report.json
    python fpga/bitstream.py kv260    by Vivado

A design that does not reach its clocks gives no bitstream. Exit code 1 when a tool fails, 2 when something is missing.
"""

import json
import shutil
import sys
import time

import flow
from flow import ROOT, FlowError, shown

BOARDS = ROOT / "fpga" / "boards"
VIVADO = "2022.2"

ULX3S = BOARDS / "ulx3s"
ULX3S_DEVICE = ["--85k", "--package", "CABGA381", "--speed", "6"]
ULX3S_MHZ = 50
UTILISATION = {
    "TRELLIS_COMB": "LUT",
    "TRELLIS_FF": "FF",
    "MULT18X18D": "MULT18",
    "DP16KD": "block RAM",
    "EHXPLLL": "PLL",
    "TRELLIS_IO": "pins",
}


class Missing(Exception):
    """A sentence: what is needed and is not there."""


def build_ulx3s(console):
    """Everything is built in build/ulx3s/work; what is finished moves up at the end."""
    try:
        flow.check_tools("yosys", "nextpnr-ecp5", "ecppack")
    except FlowError as error:
        raise Missing(error) from None
    lpf = ULX3S / "ulx3s.lpf"
    if not lpf.is_file():
        raise Missing(f"{shown(lpf)} is not there, so the pins of the board are not known")
    paths = flow.sources("ulx3s", ULX3S)
    output = ROOT / "build" / "ulx3s"
    work = output / "work"
    work.mkdir(parents=True, exist_ok=True)
    netlist, placed, report, bit = (
        work / name for name in ("voxpath.json", "voxpath.config", "report.json", "voxpath.bit")
    )
    for path in (netlist, placed, report, bit):
        path.unlink(missing_ok=True)

    script = f"{flow.read_slang('ulx3s', paths)}; synth_ecp5 -top ulx3s -json {shown(netlist)}"
    step(console, "yosys", "synthesis", ["-p", script], work)
    place = [*ULX3S_DEVICE, "--lpf", shown(lpf), "--freq", str(ULX3S_MHZ), "--json", shown(netlist)]
    place += ["--textcfg", shown(placed), "--report", shown(report)]
    step(console, "nextpnr-ecp5", "place and route", place, work)
    step(console, "ecppack", "bitstream", ["--compress", "--input", shown(placed), "--bit", shown(bit)], work)

    for path in (report, bit):
        path.replace(output / path.name)
    tell(json.loads((output / "report.json").read_text()), console)
    console.print(f"{shown(output / bit.name)} ({(output / bit.name).stat().st_size:,} bytes)")


def step(console, tool: str, what: str, arguments: list[str], work):
    """Run one tool; on a terminal a line counts the seconds, elsewhere one says that it began."""
    begin = time.monotonic()
    if not console.is_terminal:
        console.print(f"{what} ({tool}) ...")
    with console.status(what) as status:
        flow.run(tool, arguments, work / f"{tool}.log", lambda s: status.update(f"{what} ({tool}), {s:.0f} s"))
    console.print(f"{what} ({tool}): {time.monotonic() - begin:.0f} s")


def tell(report: dict, console):
    """The clocks that were reached and what is used of the device."""
    for clock, figures in report["fmax"].items():
        wanted = f"{figures['constraint']:.1f} MHz wanted"
        name, path = flow.clock_name(clock), flow.slowest_path(report, clock)
        console.print(f"clock {name}: {figures['achieved']:.1f} MHz ({wanted}); longest path {path}")
    for cell, name in UTILISATION.items():
        used, available = report["utilization"][cell]["used"], report["utilization"][cell]["available"]
        console.print(f"{name}: {used:,} of {available:,} ({100 * used / available:.1f} %)")


def build_kv260(console):
    if shutil.which("vivado") is None:
        raise Missing(
            f"vivado is not on PATH: a KV260 bitstream needs Vivado {VIVADO} or later; "
            "with open tools alone, make bitstream BOARD=ulx3s builds one for the ULX3S"
        )
    raise Missing(f"{shown(BOARDS / 'kv260')} is not in this tree, so there is no KV260 design for Vivado to build")


BUILDS = {"ulx3s": build_ulx3s, "kv260": build_kv260}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] not in BUILDS:
        print(f"there is no board {arguments[0]}; there are {' and '.join(BUILDS)}", file=sys.stderr)
        return 2
    try:
        BUILDS[arguments[0]](plain_console())
    except (Missing, FlowError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, Missing) else 1
    return 0


def plain_console():
    try:
        from rich.console import Console
    except ImportError:
        raise Missing(f"rich is not installed; install it with: {flow.INSTALL}") from None
    return Console(highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
