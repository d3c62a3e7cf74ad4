"""Area of the front end's modules, and the clock that they reach, by the open tools.

    python fpga/synth.py [ROW...]    area of every row of fpga/budgets.py, or of those named, beside its limits
    python fpga/synth.py --fmax [MODULE] [--seeds N]    place and route a module (frontend) alone on an ECP5-85F

The area is that of Yosys for the KV260's family (UltraScale+) and for the ECP5, before a placer packs anything; it is
kept in build/synth/area.json. Exit code 1 when something is over its limit or too slow.
"""

import argparse
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import flow
from budgets import AREA, MHZ_MIN, Area
from flow import ROOT, FlowError, shown

BUILD = ROOT / "build" / "synth"
RESOURCES = ("lut", "ff", "dsp", "bram18")

# What a primitive takes. RAM in LUTs counts with the LUTs that it occupies.
XILINX = {
    **{f"LUT{n}": {"lut": 1} for n in range(1, 7)},
    "INV": {"lut": 1},
    "SRL16E": {"lut": 1},
    "SRLC32E": {"lut": 1},
    **{name: {"ff": 1} for name in ("FDRE", "FDSE", "FDCE", "FDPE", "LDCE", "LDPE")},
    **{name: {"lut": 2} for name in ("RAM32X1D", "RAM64X1D")},
    **{name: {"lut": 4} for name in ("RAM32M", "RAM64M", "RAM128X1D")},
    **{name: {"lut": 8} for name in ("RAM32M16", "RAM64M8", "RAM256X1D")},
    "RAM512X1S": {"lut": 8},
    "DSP48E2": {"dsp": 1},
    "RAMB18E2": {"bram18": 1},
    "RAMB36E2": {"bram18": 2},
    **{name: {} for name in ("BUFG", "CARRY4", "CARRY8", "MUXF7", "MUXF8", "MUXF9")},
}
ECP5 = {
    "LUT4": {"lut": 1},
    "CCU2C": {"lut": 2},
    # Four LUTs of memory, and the slice of two whose inputs are its write port.
    "TRELLIS_DPR16X4": {"lut": 6},
    "TRELLIS_FF": {"ff": 1},
    "MULT18X18D": {"dsp": 1},
    "ALU54B": {},
    "DP16KD": {"bram18": 1},
    **{name: {} for name in ("PFUMX", "L6MUX21")},
}
FAMILIES = {
    "kv260": ("synth_xilinx -family xcup -noiopad", XILINX),
    "ecp5": ("synth_ecp5", ECP5),
}


# ---- area ----------------------------------------------------------------------------------------------------------


def take(cells: dict[str, int], primitives: dict[str, dict[str, int]]) -> dict[str, int]:
    """LUTs, flip-flops, DSPs and 18-kbit memories of a netlist's cells."""
    total = dict.fromkeys(RESOURCES, 0)
    for cell, count in cells.items():
        if cell not in primitives:
            raise FlowError(f"the netlist has a cell {cell} that fpga/synth.py does not know how to count")
        for resource, each in primitives[cell].items():
            total[resource] += each * count
    return total


def measure(row: Area) -> dict[str, dict[str, int]]:
    """Area of a row's module in each family; from build/synth/area where nothing it depends on has changed."""
    paths = flow.sources(row.top)
    key = hashlib.sha256(f"{row.top} {row.parameters} {FAMILIES} {flow.version('yosys')}".encode())
    for path in (*paths, *flow.tables(paths, row.parameters)):
        key.update(path.name.encode() + path.read_bytes())
    folder = BUILD / "area" / row.top
    kept = folder / "area.json"
    if kept.is_file():
        try:
            old = json.loads(kept.read_text())
            if old["key"] == key.hexdigest():
                return old["area"]
        except (ValueError, KeyError):
            pass  # damaged: measure again
    area = {}
    for family, (command, primitives) in FAMILIES.items():
        result = folder / f"{family}.json"
        script = f"{flow.read_slang(row.top, paths, row.parameters)}; {command} -top {row.top}"
        folder.mkdir(parents=True, exist_ok=True)
        flow.run("yosys", ["-p", f"{script}; tee -o {shown(result)} stat -json"], folder / f"{family}.log")
        area[family] = take(json.loads(result.read_text())["design"]["num_cells_by_type"], primitives)
    flow.write_json(kept, {"key": key.hexdigest(), "area": area})
    return area


@dataclass(frozen=True)
class Result:
    """A row measured; `over` names the resources that are above their limits."""

    row: Area
    area: dict[str, dict[str, int]]

    @property
    def over(self) -> list[str]:
        limits = ((resource, getattr(self.row, resource)) for resource in RESOURCES)
        return [name for name, limit in limits if limit is not None and self.area["kv260"][name] > limit]


def measure_all(names: list[str], console) -> list[Result]:
    """Every row, or those named, in the table's order; says on the console what is being done."""
    known = {row.name: row for row in AREA}
    for name in names:
        if name not in known:
            raise FlowError(f"{name} is not in fpga/budgets.py; there are {', '.join(known)}")
    wanted = {name: known[name] for name in names} or known
    # Rows may share a module; each is measured once.
    needed = {row.top: row for row in wanted.values()}
    for row in wanted.values():
        if row.without:
            needed[known[row.without].top] = known[row.without]
    for top in needed:
        flow.sources(top)  # so that a module that is missing is said before minutes of work
    prepare(console)
    areas, done = {}, 0
    with console.status("synthesis"), ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        futures = {top: pool.submit(measure, row) for top, row in needed.items()}
        try:
            for top, future in futures.items():
                areas[top] = future.result()
                done += 1
                console.print(f"{done} of {len(needed)}: {top}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    results = []
    for row in wanted.values():
        area = areas[row.top]
        if row.without:
            less = areas[known[row.without].top]
            area = {family: {r: area[family][r] - less[family][r] for r in RESOURCES} for family in FAMILIES}
        results.append(Result(row, area))
    return results


def prepare(console):
    """The first call compiles the tool into its cache; do that once, not in two runs at a time."""
    log = BUILD / "yosys-version.log"
    with console.status("yosys starts; the first time it compiles itself, which takes about 40 s"):
        flow.run("yosys", ["-V"], log)


def area_table(results: list[Result]):
    from rich.table import Table

    table = Table(title="Area after synthesis (limit)", title_justify="left", caption_justify="left")
    table.add_column("module")
    for heading in ("LUT", "FF", "DSP", "BRAM18"):
        table.add_column(f"KV260\n{heading}", justify="right")
    for heading in ("LUT4", "FF", "MULT18", "DP16K"):
        table.add_column(f"ECP5\n{heading}", justify="right")
    table.add_column("reference")
    for result in results:
        cells = []
        for resource in RESOURCES:
            text, limit = f"{result.area['kv260'][resource]:,}", getattr(result.row, resource)
            if limit is not None:
                colour = "red" if resource in result.over else "green"
                text = f"[{colour}]{text} ({limit:,})[/]"
            cells.append(text)
        cells += [f"{result.area['ecp5'][resource]:,}" for resource in RESOURCES]
        table.add_row(result.row.name, *cells, result.row.reference)
    return table


def report_area(names: list[str], console) -> int:
    results = measure_all(names, console)
    console.print(area_table(results))
    rows = [{**asdict(result.row), "area": result.area, "over": result.over} for result in results]
    if not names:
        flow.write_json(BUILD / "area.json", {"yosys": flow.version("yosys"), "rows": rows})
        console.print(f"kept in {shown(BUILD / 'area.json')}")
    for result in results:
        for resource in result.over:
            used, limit = result.area["kv260"][resource], getattr(result.row, resource)
            console.print(f"[red]{result.row.name}: {used:,} {resource.upper()}, {limit:,} are allowed[/]")
    return 1 if any(result.over for result in results) else 0


# ---- clock ---------------------------------------------------------------------------------------------------------


def harness(top: str, ports: dict[str, dict], parameters: dict[str, str]) -> str:
    """SystemVerilog that gives a module of many ports three pins, with registers on both of its sides.

    serial_in ─► [ shift register ] ─► module ─► [ registers ] ─► [ xor, four a level ] ─► serial_out
    """
    connect, width = [".clk(clk)"], {"input": 0, "output": 0}
    side = {"input": "in_q", "output": "out_d"}
    for name, port in ports.items():
        if name == "clk":
            continue
        kind, bits = port["direction"], len(port["bits"])
        connect.append(f".{name}({side[kind]}[{width[kind]}+:{bits}])")
        width[kind] += bits
    values = ", ".join(f".{name}({value})" for name, value in parameters.items())
    lines = [
        f"// Written by fpga/synth.py: {top} between registers, for place and route.",
        "module harness (input logic clk, input logic serial_in, output logic serial_out);",
        f"  logic [{width['input'] - 1}:0] in_q;",
        f"  logic [{width['output'] - 1}:0] out_d, level0_q;",
        "  always_ff @(posedge clk) begin",
        f"    in_q <= {width['input']}'({{in_q, serial_in}});",
        "    level0_q <= out_d;",
        "  end",
        f"  {top} {f'#({values}) ' if values else ''}dut (",
        "    " + ",\n    ".join(connect),
        "  );",
    ]
    level, bits = 0, width["output"]
    while bits > 1:
        after = -(-bits // 4)
        lines.append(f"  logic [{after - 1}:0] level{level + 1}_q;")
        lines.append("  always_ff @(posedge clk) begin")
        for i in range(after):
            high = min(4 * i + 3, bits - 1)
            lines.append(f"    level{level + 1}_q[{i}] <= ^level{level}_q[{high}:{4 * i}];")
        lines.append("  end")
        level, bits = level + 1, after
    return "\n".join([*lines, f"  assign serial_out = level{level}_q[0];", "endmodule", ""])


def place_and_route(top: str, seed: int, console) -> dict:
    """nextpnr's report of a module alone on an ECP5-85F."""
    parameters = next((row.parameters for row in AREA if row.top == top), {})
    folder = BUILD / "fmax" / top
    folder.mkdir(parents=True, exist_ok=True)
    paths = flow.sources(top)
    ports, netlist, report = folder / "ports.json", folder / "netlist.json", folder / "report.json"
    prepare(console)
    with console.status("") as status:

        def waiting(step):
            return lambda seconds: status.update(f"{top}: {step}, {seconds:.0f} s")

        script = f"{flow.read_slang(top, paths, parameters)}; write_json {shown(ports)}"
        flow.run("yosys", ["-p", script], folder / "ports.log", waiting("reading"))
        found = json.loads(ports.read_text())["modules"][top]["ports"]
        if "clk" not in found:
            raise FlowError(f"{top} has no port clk, so there is no clock to measure")
        wrapper = folder / "harness.sv"
        wrapper.write_text(harness(top, found, parameters))
        script = f"{flow.read_slang('harness', [*paths, wrapper])}; synth_ecp5 -top harness -json {shown(netlist)}"
        flow.run("yosys", ["-p", script], folder / "synth.log", waiting("synthesis"))
        arguments = ["--85k", "--package", "CABGA381", "--speed", "6", "--json", shown(netlist), "--seed", str(seed)]
        # A design that is too slow still gets its report.
        arguments += ["--freq", str(MHZ_MIN), "--timing-allow-fail"]
        # The placer looks harder at the longest paths than by default (10): routing is most of them.
        arguments += ["--placer-heap-timingweight", "25"]
        arguments += ["--report", shown(report), "--detailed-timing-report"]
        flow.run("nextpnr-ecp5", arguments, folder / "nextpnr.log", waiting("place and route"))
    return json.loads(report.read_text())


def report_fmax(top: str, seeds: int, console) -> int:
    """Try the placer's seeds 1 to `seeds` until the clock that is wanted is reached; tell about the best of them."""
    target = MHZ_MIN if top == "frontend" else None
    tried = {}
    for seed in range(1, seeds + 1):
        report = place_and_route(top, seed, console)
        clock, figures = min(report["fmax"].items(), key=lambda item: item[1]["achieved"])
        tried[seed] = figures["achieved"]
        console.print(f"seed {seed}: {tried[seed]:.1f} MHz, longest path {flow.slowest_path(report, clock)}")
        if tried[seed] == max(tried.values()):
            ends = flow.slowest_ends(report, 12)
        if target and tried[seed] >= target:
            break
    reached = max(tried.values())
    console.print("the registers that are reached last:")
    for ns, name in ends:
        console.print(f"  {ns:5.1f} ns  {name}")
    wanted = f" ({target} MHz wanted)" if target else ""
    console.print(f"{top}: {reached:.1f} MHz on an ECP5-85F, speed grade 6{wanted}")
    flow.write_json(BUILD / "fmax" / f"{top}.json", {"module": top, "mhz": reached, "mhz_min": target, "seeds": tried})
    return 1 if target and reached < target else 0


# ---- command line --------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows of fpga/budgets.py; all when none is named")
    parser.add_argument("--fmax", nargs="?", const="frontend", metavar="MODULE", help="place and route a module")
    parser.add_argument("--seeds", type=int, default=4, help="placements to try until --fmax is reached (default 4)")
    options = parser.parse_args(arguments)
    try:
        flow.check_tools("yosys", "nextpnr-ecp5")
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=bool(options.fmax), width=None if sys.stdout.isatty() else 130)
        if options.fmax:
            return report_fmax(options.fmax, max(1, options.seeds), console)
        return report_area(options.rows, console)
    except FlowError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
