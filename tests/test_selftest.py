import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from doubles import frame
from voxpath import selftest
from voxpath.boards import registers
from voxpath.errors import BoardError

FIRST_NS = 50_000_000  # when the reply's first sample leaves the DAC
TICK_NS = 1e9 / 48_000


class Loop:
    """A board that hears its own loudspeaker `delay_ns` later once its loop is closed; `gain` 0 is an open loop."""

    def __init__(self, delay_ns, gain=1.0, delays=(0, 0)):
        self.delay_ns, self.gain = delay_ns, gain
        self.values = {
            registers.DELAY_DAC: delays[0],
            registers.DELAY_ADC: delays[1],
            registers.INPUT: 1,
            registers.INPUT_GAIN: 0x2000,
            registers.DENOISE: 0,
        }
        self.registers = SimpleNamespace(read=self.values.__getitem__, write=self.values.__setitem__)

    def start_reply(self, rate):
        self.reply = SimpleNamespace(times={}, finish=lambda: None)
        self.reply.write = lambda pcm: self.reply.times.update(first=FIRST_NS, last=FIRST_NS + len(pcm) * 62_500)
        return self.reply

    def frames(self):
        self.closed = self.values[registers.INPUT] & registers.INPUT__LOOP and self.values[registers.DENOISE] == 1
        # The click as a function of time, not of the samples that were written: sampled where the ADC's grid falls.
        centre_ns = FIRST_NS + selftest.CLICK_AT * 62_500 + self.delay_ns
        for number in range(200):
            times = number * 4_000_000 + 62_500 * np.arange(64)
            pulse = 16384 * np.exp(-0.5 * ((times - centre_ns) / 62_500 / selftest.CLICK_SIGMA) ** 2)
            yield frame(number, pcm=np.rint(self.gain * pulse).astype(np.int16))


def run(board):
    console = Console(file=io.StringIO(), width=100)
    return selftest.run(board, console), console.file.getvalue()


@pytest.mark.parametrize("off_ticks", [-0.9, -0.3, 0.0, 0.47, 0.95])
def test_a_click_within_one_sample_of_its_time_passes(off_ticks):
    code, text = run(Loop(TICK_NS * (1 + off_ticks)))
    assert code == 0
    assert f"{off_ticks:+.2f} samples" in text or off_ticks == 0.0
    assert "20.833" in text


@pytest.mark.parametrize("off_ticks", [-1.1, 1.1, 3.0, -48.0])
def test_a_click_more_than_one_sample_off_fails(off_ticks):
    code, text = run(Loop(TICK_NS * (1 + off_ticks)))
    assert code == 1 and "off by more than one sample" in text


def test_converter_delays_that_the_digital_loop_does_not_pass_are_allowed_for():
    # The event's time is 100 us late of the digital sample, the frame's 30 us early of it.
    assert run(Loop(TICK_NS - 130_000, delays=(100_000, 30_000)))[0] == 0


def test_the_loop_is_closed_without_denoising_and_afterwards_all_is_as_before():
    board = Loop(TICK_NS)
    before = dict(board.values)
    assert run(board)[0] == 0
    assert board.closed and board.values == before


def test_a_loop_that_is_open_is_one_sentence():
    with pytest.raises(BoardError, match="did not come back"):
        run(Loop(TICK_NS, gain=0.0))
