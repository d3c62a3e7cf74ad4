"""Line, branch and toggle coverage of fpga/rtl from the benches' Verilator runs, as HTML and lcov.

    VOXPATH_COVERAGE=1 pytest sim/ -k "not icarus"    each run leaves its counts in build/coverage/runs/
    python sim/coverage.py                            build/coverage/index.html, lcov.info, and a table

What counts. Lines: those of statements in always and initial blocks; continuous assignments are wires, which toggles
tell about. Branches: each way of an if, a case and a ?: operator. Toggles: each bit of each signal, up and down.
Left out are parameter checks (whatever holds $fatal), empty default branches, and what a source line marks with
`// coverage off: REASON`. Exit code 1 when under 95 % of the lines are covered or a module was never simulated.
"""

import html
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "fpga" / "rtl"
BUILD = ROOT / "build" / "coverage"
LINES_MIN = 95.0  # percent

_RECORD = re.compile(r"C '(.*)' (\d+)$")
_LEFT_OUT = re.compile(r"\$fatal\b|^\s*default\s*:\s*;")
_PRAGMA = re.compile(r"//\s*coverage off(?::\s*(\S.*))?")


class CoverageError(Exception):
    """A sentence for the user."""


# ---- what the simulator wrote --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One thing that Verilator counts. `kind` is line, branch or toggle; `lines` are those that run when it does."""

    file: str
    line: int
    number: int
    kind: str
    what: str
    lines: tuple[int, ...]


def read(path: Path) -> Iterable[tuple[Point, int]]:
    """The points of a coverage.dat with their counts.

    Each is a line `C '\\x01key\\x02value\\x01key\\x02value...' count`, with the keys f (file), l (line), n (number in
    the line), page (v_KIND/module), o (what) and S (lines, as 3,5-7).
    """
    for text in path.read_text(errors="replace").splitlines():
        match = _RECORD.match(text)
        if not match:
            continue
        values = dict(part.split("\x02", 1) for part in match[1].split("\x01") if "\x02" in part)
        kind = values["page"].split("/")[0].removeprefix("v_")
        lines = tuple(number for part in values.get("S", "").split(",") if part for number in _span(part))
        what = values.get("o", "")
        yield Point(values["f"], int(values["l"]), int(values["n"]), kind, what, lines), int(match[2])


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def merge(paths: Iterable[Path]) -> dict[str, dict[Point, int]]:
    """The counts of every run added up, a source file of fpga/rtl each; all instances and parameters of it together."""
    files: dict[str, dict[Point, int]] = defaultdict(lambda: defaultdict(int))
    for path in paths:
        for point, count in read(path):
            source = Path(point.file)
            if source.parent == RTL:
                files[source.name][point] += count
    return files


# ---- one module ----------------------------------------------------------------------------------------------------


@dataclass
class Module:
    """Coverage of one source file. `lines` maps a line to its hits, `branches` to (what, hits) of each way."""

    name: str
    source: list[str]
    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    toggles: dict[str, dict[int | None, list[int]]] = field(default_factory=dict)  # signal -> bit -> [up, down]
    left_out: dict[int, str] = field(default_factory=dict)  # line -> reason

    @property
    def uncovered(self) -> list[int]:
        return sorted(line for line, hits in self.lines.items() if not hits)

    @property
    def line_count(self) -> tuple[int, int]:
        return sum(hits > 0 for hits in self.lines.values()), len(self.lines)

    @property
    def branch_count(self) -> tuple[int, int]:
        ways = [hits for line in self.branches.values() for _, hits in line]
        return sum(hits > 0 for hits in ways), len(ways)

    @property
    def toggle_count(self) -> tuple[int, int]:
        ways = [hits for bits in self.toggles.values() for both in bits.values() for hits in both]
        return sum(hits > 0 for hits in ways), len(ways)

    @property
    def still(self) -> list[str]:
        """Signals, or bits of them, that did not go both up and down."""
        names = []
        for signal, bits in sorted(self.toggles.items()):
            quiet = [bit for bit, both in bits.items() if not all(both)]
            if len(quiet) == len(bits):
                names.append(signal)
            elif quiet:
                names.append(f"{signal}[{spans(bit for bit in quiet if bit is not None)}]")
        return names


def spans(numbers: Iterable[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def left_out(name: str, source: list[str]) -> dict[int, str]:
    """The lines that do not count, with the reason."""
    found = {}
    for number, text in enumerate(source, 1):
        pragma = _PRAGMA.search(text)
        if pragma and not pragma[1]:
            raise CoverageError(f"{name}.sv:{number}: `coverage off` needs a reason: // coverage off: REASON")
        if pragma:
            found[number] = pragma[1]
        elif _LEFT_OUT.search(text.split("//")[0]):
            found[number] = "parameter check" if "$fatal" in text else "empty default"
    return found


def module(path: Path, points: dict[Point, int]) -> Module:
    """What the points of one file say about its lines, branches and signals."""
    result = Module(path.stem, path.read_text().splitlines())
    out = left_out(result.name, result.source)
    for point, hits in points.items():
        if point.kind == "toggle":
            signal, bit, way = re.fullmatch(r"(.*?)(?:\[(\d+)\])?:([01])->[01]", point.what).groups()
            both = result.toggles.setdefault(signal, {}).setdefault(None if bit is None else int(bit), [0, 0])
            both[int(way)] += hits
            continue
        reason = next((out[line] for line in (point.line, *point.lines) if line in out), None)
        if reason:
            result.left_out.update(dict.fromkeys(point.lines, reason))
            continue
        for line in point.lines:
            result.lines[line] = max(result.lines.get(line, 0), hits)
        if point.kind == "branch":
            result.branches.setdefault(point.line, []).append((point.what, hits))
    # What a line that counts shares with one that is left out stays.
    result.left_out = {line: reason for line, reason in result.left_out.items() if line not in result.lines}
    return result


# ---- lcov and HTML -------------------------------------------------------------------------------------------------


def lcov(modules: list[Module]) -> str:
    """The same counts in lcov's format, for editors and services that read it."""
    out = ["TN:"]
    for item in modules:
        out.append(f"SF:fpga/rtl/{item.name}.sv")
        for line, ways in sorted(item.branches.items()):
            out += [f"BRDA:{line},0,{index},{hits}" for index, (_, hits) in enumerate(ways)]
        hit, total = item.branch_count
        out += [f"BRF:{total}", f"BRH:{hit}"]
        out += [f"DA:{line},{hits}" for line, hits in sorted(item.lines.items())]
        hit, total = item.line_count
        out += [f"LF:{total}", f"LH:{hit}", "end_of_record"]
    return "\n".join([*out, ""])


STYLE = """
:root { color-scheme: light dark;
  --text: #1c1e21; --quiet: #667; --page: #fff; --edge: #d8dbe0; --link: #0b57b0;
  --good: #e3f4e5; --part: #fdf1cf; --bad: #fadcd9; --bar: #3f9a55; --bar-bad: #c5483d; --groove: #e8eaee }
@media (prefers-color-scheme: dark) { :root {
  --text: #e3e5e8; --quiet: #99a; --page: #16181c; --edge: #33373e; --link: #7fb4f5;
  --good: #17301d; --part: #3a3010; --bad: #45201d; --bar: #4cae65; --bar-bad: #d8655a; --groove: #2a2e35 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 1150px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem }
p { max-width: 75ch } .quiet { color: var(--quiet) } a { color: var(--link) }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600 }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--edge); vertical-align: top }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.bar { display: inline-block; width: 5rem; height: .55rem; margin-left: .5rem; background: var(--groove) }
.bar i { display: block; height: 100%; background: var(--bar) } .bar i.low { background: var(--bar-bad) }
.code { overflow-x: auto; border: 1px solid var(--edge) }
.code table { font: 13px/1.45 ui-monospace, monospace } .code td { border: 0; padding: 0 .7rem; white-space: pre }
.code .n, .code .out td { color: var(--quiet) } .code .n a { color: inherit; text-decoration: none }
.good td { background: var(--good) } .part td { background: var(--part) } .bad td { background: var(--bad) }
.key span { padding: 0 .5rem; margin-right: .4rem } .key .g { background: var(--good) }
.key .p { background: var(--part) } .key .b { background: var(--bad) } tr:target td { outline: 2px solid var(--link) }
"""


def page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def percent(hit: int, total: int) -> float:
    return 100 * hit / total if total else 100.0


def cell(count: tuple[int, int], floor: float = 0.0) -> str:
    """A table cell with a share as number and bar; nothing to count is a dash."""
    hit, total = count
    if not total:
        return '<td class="n quiet">none</td>'
    share = percent(hit, total)
    low = ' class="low"' if share < floor else ""
    bar = f'<span class="bar"><i{low} style="width:{share:.1f}%"></i></span>'
    return f'<td class="n" title="{hit:,} of {total:,}">{share:.1f} %{bar}</td>'


def index_page(modules: list[Module], missing: list[str]) -> str:
    rows = []
    for item in modules:
        lines = ", ".join(f'<a href="{item.name}.html#{line}">{line}</a>' for line in item.uncovered)
        rows.append(
            f'<tr><td><a href="{item.name}.html">{item.name}</a></td>{cell(item.line_count, LINES_MIN)}'
            f"{cell(item.branch_count)}{cell(item.toggle_count)}<td>{lines}</td></tr>"
        )
    rows += [f'<tr><td>{name}</td><td colspan="4">never simulated</td></tr>' for name in missing]
    lines, branches, toggles = totals(modules)
    total = f"<tr><th>all</th>{cell(lines, LINES_MIN)}{cell(branches)}{cell(toggles)}<td></td></tr>"
    about = html.escape(__doc__.split("What counts. ")[1].split(" Exit code")[0].replace("`", ""))
    return page(
        "Voxpath RTL coverage",
        "<h1>RTL coverage</h1>\n<p>What the cocotb benches in <code>sim/</code> run of <code>fpga/rtl</code>,"
        f" in Verilator. {LINES_MIN:.0f} % of the lines are required.</p>\n"
        "<table>\n<thead><tr><th>module</th><th class=n>lines</th><th class=n>branches</th><th class=n>toggles</th>"
        "<th>lines that never ran</th></tr></thead>\n<tbody>\n" + "\n".join([*rows, total]) + "\n</tbody>\n</table>\n"
        f'<h2>What counts</h2>\n<p class="quiet">{about}</p>',
    )


def totals(modules: list[Module]) -> list[tuple[int, int]]:
    """(covered, all) of the lines, branches and toggles of all modules together."""
    counts = [(item.line_count, item.branch_count, item.toggle_count) for item in modules]
    return [(sum(hit for hit, _ in kind), sum(total for _, total in kind)) for kind in zip(*counts, strict=True)]


def module_page(item: Module) -> str:
    rows = []
    for number, text in enumerate(item.source, 1):
        hits, ways = item.lines.get(number), item.branches.get(number, [])
        never = [what for what, count in ways if not count]
        kind, note = "", ""
        if hits is not None or ways:
            kind = "bad" if hits == 0 else "part" if never else "good"
            note = f"never: {', '.join(never)}" if never else ""
        elif number in item.left_out:
            kind, note = "out", f"left out: {item.left_out[number]}"
        title = f' title="{html.escape(note)}"' if note else ""
        count = "" if hits is None else f"{hits:,}"
        rows.append(
            f'<tr id="{number}" class="{kind}"{title}><td class="n"><a href="#{number}">{number}</a></td>'
            f'<td class="n">{count}</td><td>{html.escape(text)}</td></tr>'
        )
    still = ", ".join(f"<code>{html.escape(name)}</code>" for name in item.still) or "none"
    uncovered = spans(item.uncovered) or "none"
    return page(
        f"{item.name} coverage",
        f'<p><a href="index.html">all modules</a></p>\n<h1>{item.name}.sv</h1>\n'
        "<table>\n<thead><tr><th class=n>lines</th><th class=n>branches</th><th class=n>toggles</th></tr></thead>\n"
        "<tbody><tr>"
        f"{cell(item.line_count, LINES_MIN)}{cell(item.branch_count)}{cell(item.toggle_count)}</tr></tbody>\n</table>\n"
        f"<p>Lines that never ran: {uncovered}</p>\n<p>Signals and bits that did not go both up and down: {still}</p>\n"
        '<p class="key"><span class="g">ran</span><span class="p">ran, but not every branch (hover to see which)</span>'
        '<span class="b">never ran</span></p>\n'
        f'<div class="code"><table>\n' + "\n".join(rows) + "\n</table></div>",
    )


# ---- command line --------------------------------------------------------------------------------------------------


def table(modules: list[Module], missing: list[str]) -> str:
    """The shares of every module, and the lines that are not covered, for the terminal."""
    width = max([len(item.name) for item in modules] + [len(name) for name in missing] + [6])
    out = [f"{'module':{width}}   lines  branches  toggles  lines that never ran"]
    for item in modules:
        shares = [share(item.line_count, 6), share(item.branch_count, 8), share(item.toggle_count, 7)]
        out.append(f"{item.name:{width}}  {'  '.join(shares)}  {spans(item.uncovered)}".rstrip())
    out += [f"{name:{width}}  never simulated" for name in missing]
    shares = [share(count, size) for count, size in zip(totals(modules), (6, 8, 7), strict=True)]
    return "\n".join([*out, f"{'all':{width}}  {'  '.join(shares)}"])


def share(count: tuple[int, int], width: int) -> str:
    return f"{percent(*count):{width - 2}.1f} %" if count[1] else f"{'none':>{width}}"


def report(runs: Path, output: Path) -> tuple[list[Module], list[str]]:
    """Read every run, write the report; returns the modules and the names of those that no run had."""
    paths = sorted(runs.glob("*.dat"))
    if not paths:
        raise CoverageError(f'there are no runs in {runs}; first: VOXPATH_COVERAGE=1 pytest sim/ -k "not icarus"')
    points = merge(paths)
    modules = [module(RTL / name, points[name]) for name in sorted(points) if (RTL / name).is_file()]
    missing = sorted(path.stem for path in RTL.glob("*.sv") if path.name not in points)
    output.mkdir(parents=True, exist_ok=True)
    for item in modules:
        (output / f"{item.name}.html").write_text(module_page(item))
    (output / "lcov.info").write_text(lcov(modules))
    (output / "index.html").write_text(index_page(modules, missing))
    return modules, missing


def main() -> int:
    try:
        modules, missing = report(BUILD / "runs", BUILD)
    except CoverageError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(modules, missing))
    print(f"{(BUILD / 'index.html').relative_to(ROOT)} shows the sources; lcov.info lies beside it")
    reached = percent(*totals(modules)[0])
    if reached < LINES_MIN:
        print(f"{reached:.1f} % of the lines are covered; {LINES_MIN:.0f} % are required", file=sys.stderr)
    if missing:
        print(f"never simulated: {', '.join(missing)}", file=sys.stderr)
    return 1 if reached < LINES_MIN or missing else 0


if __name__ == "__main__":
    sys.exit(main())
