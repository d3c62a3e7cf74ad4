"""The committed coefficient tables meet their specification, as quantised, and are what the script designs."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import freqz

SCRIPT = Path(__file__).resolve().parent.parent / "fpga" / "filters" / "design.py"
_spec = importlib.util.spec_from_file_location("design", SCRIPT)
design = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(design)

# Name, L, M, prototype rate, pass band edge, stop band edge (Hz): the specification of the front end, written out again
# so that a change of the script cannot change it.
SPECIFICATION = [
    ("decimate_48k_16k", 1, 3, 48_000, 6_400, 9_000),
    ("interpolate_16k_48k", 3, 1, 48_000, 6_400, 9_000),
    ("interpolate_24k_48k", 2, 1, 48_000, 9_600, 14_400),
    ("decimate_44k1_16k", 160, 441, 160 * 44_100, 6_400, 9_000),
]


def load(name):
    lines = (SCRIPT.parent / f"{name}.hex").read_text().split()
    words = np.array([int(line, 16) for line in lines])
    assert all(len(line) == 5 for line in lines) and words.max() < 1 << 18
    return np.where(words >= 1 << 17, words - (1 << 18), words)


@pytest.mark.parametrize(("name", "up", "down", "rate", "pass_hz", "stop_hz"), SPECIFICATION)
def test_quantised_table_is_flat_in_the_pass_band_and_70_db_down_in_the_stop_band(
    name, up, down, rate, pass_hz, stop_hz
):
    words = load(name)
    # A point every 7 Hz: the ripples are 400 Hz wide.
    frequencies, response = freqz(words / 65536 / up, worN=1 << (15 if up < 100 else 19), fs=rate)
    gain = 20 * np.log10(np.maximum(np.abs(response), 1e-12))
    passed = gain[frequencies <= pass_hz]
    stopped = gain[frequencies >= stop_hz]
    print(f"\n{name}: {passed.min():+.3f} to {passed.max():+.3f} dB, stop band {stopped.max():.1f} dB")
    assert np.abs(passed).max() <= 0.1
    assert stopped.max() <= -70


@pytest.mark.parametrize(("name", "up", "rate"), [(row[0], row[1], row[3]) for row in SPECIFICATION])
def test_group_delay_of_every_table_is_28_samples_of_the_faster_side_and_under_0_7_ms(name, up, rate):
    words = load(name)
    faster = 44_100 if up == 160 else 48_000
    assert (len(words) - 1) / 2 * faster == 28 * rate
    assert np.array_equal(words, words[::-1])  # linear phase, so the delay is the centre at every frequency
    assert words[len(words) // 2] == words.max()
    assert 28 / faster <= 0.7e-3


@pytest.mark.parametrize("spec", design.FILTERS, ids=lambda spec: spec.name)
def test_committed_table_is_what_the_script_designs(spec):
    """A rounding of one is allowed: another scipy may end its exchange one step earlier."""
    assert np.abs(load(spec.name) - design.table(spec)).max() <= 1


def test_every_resampler_table_in_the_folder_has_a_specification_here():
    tables = {path.stem for kind in ("decimate", "interpolate") for path in SCRIPT.parent.glob(f"{kind}_*.hex")}
    assert tables == {row[0] for row in SPECIFICATION}
