"""Turn `frontend.rdl` into RTL, Python, Markdown, a C header and HTML.

python fpga/regs/generate.py rtl FOLDER      SystemVerilog for simulation and synthesis
python fpga/regs/generate.py host            host/voxpath/boards/registers.py and docs/registers.md (committed)
python fpga/regs/generate.py extras FOLDER   C header and HTML pages
"""

import subprocess
import sys
from pathlib import Path

from systemrdl import RDLCompiler
from systemrdl.node import RegNode

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("frontend.rdl")
PYTHON = ROOT / "host" / "voxpath" / "boards" / "registers.py"
MARKDOWN = ROOT / "docs" / "registers.md"


def registers() -> list[RegNode]:
    """The registers of the map in the order of their addresses."""
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE))
    return [child for child in compiler.elaborate().top.children() if isinstance(child, RegNode)]


def python_text() -> str:
    """A module of constants: `NAME` is a byte offset, `NAME__FIELD` a bit mask where a register has several fields."""
    lines = [
        '"""Byte offsets of the front end\'s registers. Generated from frontend.rdl."""',
        "",
    ]
    wide = []
    for reg in registers():
        lines.append(f"{reg.inst_name} = 0x{reg.address_offset:03X}")
        fields = reg.fields()
        if len(fields) > 1:
            for field in fields:
                mask = ((1 << field.width) - 1) << field.low
                lines.append(f"{reg.inst_name}__{field.inst_name.upper()} = 0x{mask:X}")
        if reg.get_property("regwidth") == 64:
            wide.append(reg.inst_name)
    lines += ["", "# Two words each, the low half first.", "WIDE = frozenset("]
    lines += ["    {"] + [f"        {name}," for name in wide] + ["    }", ")", ""]
    return "\n".join(lines)


def markdown_text() -> str:
    """The register map as a table."""
    lines = [
        "# Registers",
        "",
        "Generated from `fpga/regs/frontend.rdl` by `python fpga/regs/generate.py host`; do not edit.",
        "Times are nanoseconds of the media clock; levels are log2 of an energy in Q6.10 (1024 = 3.01 dB).",
        "",
        "| offset | register | bits | access | after reset | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for reg in registers():
        fields = reg.fields()
        description = reg.get_property("desc", default="")
        lines.append(
            f"| 0x{reg.address_offset:03X} | **{reg.inst_name}** | {reg.get_property('regwidth')} | | "
            f"| {reg.get_property('name')}. {description} |"
        )
        for field in fields:
            reset = field.get_property("reset")
            access = {"rw": "read, write", "r": "read", "w": "write"}[field.get_property("sw").name]
            bits = f"{field.high}:{field.low}" if field.width > 1 else f"{field.low}"
            text = field.get_property("desc", default="")
            lines.append(
                f"| | {field.inst_name} | {bits} | {access} | {'' if reset is None else f'0x{reset:X}'} | {text} |"
            )
    return "\n".join(lines) + "\n"


def write_rtl(folder: Path):
    """`frontend_regs.sv` and its package, with an AXI4-Lite slave."""
    # A register behind the multiplexer of reads keeps it out of the front end's longest paths.
    options = ("--module-name", "frontend_regs", "--default-reset", "rst", "--rt-read-fanin")
    run("regblock", folder, "--cpuif", "axi4-lite-flat", *options)


def run(exporter: str, output: Path, *options: str):
    """One of PeakRDL's exporters, run by the interpreter that runs this."""
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "peakrdl", exporter, str(SOURCE), "-o", str(output), *options], check=True)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["rtl", folder]:
            write_rtl(Path(folder))
        case ["host"]:
            PYTHON.write_text(python_text())
            MARKDOWN.write_text(markdown_text())
        case ["extras", folder]:
            run("c-header", Path(folder) / "frontend.h")
            run("html", Path(folder) / "html")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
