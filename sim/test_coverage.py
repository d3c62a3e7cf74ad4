"""The coverage report: what it reads out of Verilator's counts, what it leaves out, and when it fails."""

from html.parser import HTMLParser

import pytest

import coverage
from coverage import CoverageError

SOURCE = """module thing (
    input  logic clk,
    input  logic [1:0] mode,
    output logic up
);
  initial if (WIDTH < 1) $fatal(1, "thing: WIDTH must be at least 1");
  always_ff @(posedge clk) begin
    if (mode == 2'd1) up <= 1'b1;
    else begin
      up <= 1'b0;
    end
    case (mode)
      2'd3: up <= 1'b0;  // coverage off: mode 3 is not wired
      default: ;
    endcase
  end
endmodule
"""


def record(file, line, number, kind, what, count, lines=""):
    """A line as Verilator writes it."""
    values = {"f": str(file), "l": line, "n": number, "t": kind, "page": f"v_{kind}/thing", "o": what}
    if lines:
        values["S"] = lines
    text = "".join(f"\x01{key}\x02{value}" for key, value in values.items())
    return f"C '{text}\x01h\x02thing' {count}\n"


@pytest.fixture
def rtl(tmp_path, monkeypatch):
    """A folder with thing.sv in the place of fpga/rtl."""
    folder = tmp_path / "rtl"
    folder.mkdir()
    (folder / "thing.sv").write_text(SOURCE)
    monkeypatch.setattr(coverage, "RTL", folder)
    return folder


def run_of(rtl, *, ones, zeros):
    """What a run leaves in which `mode == 1` was true `ones` times and false `zeros` times."""
    thing = rtl / "thing.sv"
    return "# SystemC::Coverage-3\n" + "".join(
        (
            record(thing, 4, 18, "toggle", "up:0->1", ones),
            record(thing, 4, 18, "toggle", "up:1->0", zeros),
            record(thing, 3, 24, "toggle", "mode[0]:0->1", ones),
            record(thing, 3, 24, "toggle", "mode[0]:1->0", ones),
            record(thing, 3, 24, "toggle", "mode[1]:0->1", 0),
            record(thing, 3, 24, "toggle", "mode[1]:1->0", 0),
            record(thing, 6, 11, "branch", "if", 0, "6"),
            record(thing, 7, 3, "line", "block", ones + zeros, "7,12"),
            record(thing, 8, 5, "branch", "if", ones, "8"),
            record(thing, 8, 6, "branch", "else", zeros, "9-10"),
            record(thing, 13, 7, "line", "case", 0, "13"),
            record(thing, 14, 7, "line", "case", ones, "14"),
            record("/elsewhere/other.sv", 1, 1, "line", "block", 0, "1"),
        )
    )


def report_of(rtl, tmp_path, *runs):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number, text in enumerate(runs):
        (folder / f"{number}.dat").write_text(text)
    return coverage.report(folder, tmp_path / "report")


def test_a_line_counts_as_covered_when_any_run_went_through_it(rtl, tmp_path):
    only_ones, only_zeros = run_of(rtl, ones=5, zeros=0), run_of(rtl, ones=0, zeros=2)
    (one,), _ = report_of(rtl, tmp_path, only_ones)
    assert one.uncovered == [9, 10] and one.line_count == (3, 5)
    assert one.branch_count == (1, 2)
    (tmp_path / "both").mkdir()
    (both,), _ = report_of(rtl, tmp_path / "both", only_ones, only_zeros)
    assert both.uncovered == [] and both.lines == {7: 7, 8: 5, 9: 2, 10: 2, 12: 7}
    assert both.branch_count == (2, 2)


def test_parameter_checks_empty_defaults_and_marked_lines_do_not_count(rtl, tmp_path):
    (thing,), _ = report_of(rtl, tmp_path, run_of(rtl, ones=1, zeros=1))
    assert thing.left_out == {6: "parameter check", 13: "mode 3 is not wired", 14: "empty default"}
    assert not {6, 13, 14} & set(thing.lines)


def test_a_line_marked_without_a_reason_is_refused(rtl, tmp_path):
    (rtl / "thing.sv").write_text(SOURCE.replace("coverage off: mode 3 is not wired", "coverage off"))
    with pytest.raises(CoverageError, match="thing.sv:13: .* needs a reason"):
        report_of(rtl, tmp_path, run_of(rtl, ones=1, zeros=1))


def test_a_signal_counts_as_toggled_when_every_bit_went_both_ways(rtl, tmp_path):
    (thing,), _ = report_of(rtl, tmp_path, run_of(rtl, ones=3, zeros=0))
    assert thing.toggle_count == (3, 6)
    assert thing.still == ["mode[1]", "up"]


def test_a_module_that_no_run_had_is_named(rtl, tmp_path):
    (rtl / "forgotten.sv").write_text("module forgotten; endmodule\n")
    modules, missing = report_of(rtl, tmp_path, run_of(rtl, ones=1, zeros=1))
    assert [module.name for module in modules] == ["thing"] and missing == ["forgotten"]
    assert "forgotten  never simulated" in coverage.table(modules, missing)
    assert "never simulated" in (tmp_path / "report" / "index.html").read_text()


def test_no_runs_say_how_to_make_them(rtl, tmp_path):
    with pytest.raises(CoverageError, match="VOXPATH_COVERAGE=1 pytest"):
        report_of(rtl, tmp_path)


def test_lcov_holds_the_lines_and_branches(rtl, tmp_path):
    report_of(rtl, tmp_path, run_of(rtl, ones=4, zeros=0))
    text = (tmp_path / "report" / "lcov.info").read_text()
    assert "SF:fpga/rtl/thing.sv\n" in text
    assert "DA:8,4\nDA:9,0\nDA:10,0\nDA:12,4\nLF:5\nLH:3\nend_of_record\n" in text
    assert "BRDA:8,0,0,4\nBRDA:8,0,1,0\nBRF:2\nBRH:1\n" in text


class Tags(HTMLParser):
    """Checks that tags close in order; collects the classes of the rows by their id, and every link."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__()
        self.open, self.rows, self.links = [], {}, []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr" and "id" in values:
            self.rows[int(values["id"])] = values["class"]
        if tag == "a":
            self.links.append(values["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_pages_are_well_formed_and_colour_what_never_ran(rtl, tmp_path):
    report_of(rtl, tmp_path, run_of(rtl, ones=4, zeros=0))
    pages = {}
    for name in ("index", "thing"):
        pages[name] = Tags()
        pages[name].feed((tmp_path / "report" / f"{name}.html").read_text())
        assert pages[name].open == []
    rows = pages["thing"].rows
    assert (rows[7], rows[8], rows[9], rows[10], rows[6], rows[1]) == ("good", "part", "bad", "bad", "out", "")
    assert {"thing.html", "thing.html#9", "thing.html#10"} == set(pages["index"].links)
