"""An I2S bus in a bench: SCLK, LRCK and SD in their own time, with jitter, lost edges and glitches."""

from cocotb.triggers import Timer
from cocotb.utils import get_sim_time

SCLK_HZ = 3_072_000


class Bus:
    """Drives SCLK and LRCK, and SD if the design listens to it; `seen` are the slots as SD was at the rising edges.

    `ppm` is SCLK's offset from 3.072 MHz, `jitter_ns` what each edge strays by, so that over a run they meet the
    design's clock in every phase. LRCK and SD change up to 30 ns after the falling edge, as a converter's do.
    """

    def __init__(self, dut, rng, *, ppm=0.0, jitter_ns=2.0, drives_sd=True):
        self.dut, self.rng = dut, rng
        self.half_ns = 0.5e9 / (SCLK_HZ * (1 + ppm * 1e-6))
        self.jitter_ns = jitter_ns
        self.drives_sd = drives_sd
        self.seen = []
        self.left_began_ns = 0.0  # the edge of SCLK with which LRCK last fell, without jitter
        self._due_ns = None  # of the next edge
        dut.sclk.value = dut.lrck.value = 1
        if drives_sd:
            dut.sd.value = 0

    async def _edge(self, offset_ns=0.0):
        now = get_sim_time("ns")
        if self._due_ns is None:
            self._due_ns = now
        at = self._due_ns + offset_ns
        await Timer(max(1, round((at - now) * 1000)), "ps")

    def _jitter(self):
        return self.rng.uniform(-self.jitter_ns, self.jitter_ns)

    async def slot(self, lrck, sd=0, *, glitch=None, lost=False):
        """One period of SCLK. `lost`: SCLK stays low. `glitch`: ("high" or "low", ns), a pulse within that half."""
        await self._edge(self._jitter())
        self.dut.sclk.value = 0
        skew = self.rng.uniform(0, 5 if glitch else 30)
        await Timer(max(1, round(skew * 1000)), "ps")
        if lrck == 0 and self.dut.lrck.value == 1:
            self.left_began_ns = self._due_ns
        self.dut.lrck.value = lrck
        if self.drives_sd:
            self.dut.sd.value = sd
        if glitch and glitch[0] == "low":
            await self._pulse(1, glitch[1])
        self._due_ns += self.half_ns
        await self._edge(self._jitter())
        if not lost:
            self.dut.sclk.value = 1
            self.seen.append((lrck, int(self.dut.sd.value) if self.dut.sd.value.is_resolvable else 0))
        if glitch and glitch[0] == "high":
            await self._pulse(0, glitch[1])
        self._due_ns += self.half_ns

    async def _pulse(self, level, length_ns):
        await self._edge(55)
        self.dut.sclk.value = level
        await Timer(round(length_ns * 1000), "ps")
        self.dut.sclk.value = 1 - level

    async def send(self, slots):
        for lrck, sd in slots:
            await self.slot(lrck, sd)
