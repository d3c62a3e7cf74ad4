"""The register map that is committed is the one that frontend.rdl describes."""

import importlib.util

from bench import ROOT

SPEC = importlib.util.spec_from_file_location("generate", ROOT / "fpga" / "regs" / "generate.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


def test_committed_python_offsets_match_the_register_map():
    assert generate.PYTHON.read_text() == generate.python_text()


def test_committed_documentation_matches_the_register_map():
    assert generate.MARKDOWN.read_text() == generate.markdown_text()


def test_registers_do_not_overlap_and_fit_the_nine_bit_window():
    taken = set()
    for reg in generate.registers():
        words = set(range(reg.address_offset, reg.address_offset + reg.size, 4))
        assert not taken & words, reg.inst_name
        taken |= words
    assert max(taken) < 512
