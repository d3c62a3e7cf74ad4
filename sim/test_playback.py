"""playback: bit-exact against its golden model whatever memory and clock do; times, level and spectrum by scipy."""

import os
import random
from dataclasses import dataclass, field, replace

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time
from scipy.signal import resample_poly
from scipy.signal.windows import blackmanharris

from bench import ROOT, record_cycles, simulate
from golden.playback import KINDS, RATES, SLOT_BYTES, UNITY, Event, Playback, Slot

FILTERS = ROOT / "fpga" / "filters"
TABLES = [FILTERS / "interpolate_16k_48k.hex", FILTERS / "interpolate_24k_48k.hex"]
SOURCES = [f"{name}.sv" for name in ("playback", "play_reader", "play_output", "play_interpolator", "play_gain")]
SOURCES += ["play_events.sv", "resampler.sv"]

PERIOD_NS = 10
RING_SLOTS = 16
TIMEOUT_CYCLES = 1000
BUDGET = 48  # cycles from a tick to its DAC sample
BASE = 0x12_3456_0000
FILTER_DELAY_NS = 583_333
DAC_DELAY_NS = 1_000
DELAY_NS = FILTER_DELAY_NS + DAC_DELAY_NS


def tick_ns(tick):
    return tick * 62_500 // 3


def read_table(path):
    words = np.array([int(line, 16) for line in path.read_text().split()])
    return np.where(words >= 1 << 17, words - (1 << 18), words)


def golden(**options):
    return Playback([read_table(path) for path in TABLES], delay_ns=DELAY_NS, **options)


def reply(ticket, pcm, rate=0, sizes=120, *, first=True, last=True, empty_last=False):
    """The slots of one ticket; `sizes` is a slot's sample count or a function that gives the next one."""
    slots, position = [], 0
    while position < len(pcm):
        n = sizes() if callable(sizes) else sizes
        slots.append(Slot(ticket, position, pcm[position : position + n], rate))
        position += slots[-1].n
    if empty_last:
        slots.append(Slot(ticket, position, pcm[:0], rate))
    slots[0] = replace(slots[0], first=first)
    slots[-1] = replace(slots[-1], last=last)
    return slots


def noise(rng, count, peak=32_767):
    return np.array([rng.randint(-peak - 1, peak) for _ in range(count)], dtype=np.int16)


# ---- what runs in the simulator ------------------------------------------------------------------------------------


@dataclass
class Memory:
    """Answers read bursts after a random wait, with random pauses between beats; `fault` names beats that fail."""

    latency: tuple = (0, 20)  # cycles, range
    pause: float = 0.2  # chance of a pause before a beat
    silent: bool = False  # never answer
    fault: dict = field(default_factory=dict)  # number of the burst -> beat with SLVERR
    bursts: list = field(default_factory=list)  # addresses, in order
    data: bytearray = field(default_factory=lambda: bytearray(os.urandom(RING_SLOTS * SLOT_BYTES)))


class Bench:
    """One playback with its memory. `cycles` a tick, or 0 to run the clock only while the design is busy."""

    def __init__(self, dut, seed, *, cycles=52, memory=None, low_water=0):
        self.dut = dut
        self.rng = random.Random(seed)
        self.cycles = cycles
        self.memory = memory or Memory()
        self.low_water = low_water
        self.tick_count = 0
        self.head = 0
        self.dac, self.playing, self.events = [], [], []
        self.worst_latency = self.longest_busy = 0
        self.faults = {name: 0 for name in ("event_overflow", "bad_head", "bad_slot", "read_error")}
        self.keep_events = False

    async def start(self):
        dut = self.dut
        for name in ("tick", "tick_ns", "quiesce", "head_write", "head_value", "stop", "event_pop"):
            getattr(dut, name).value = 0
        for name in ("arready", "rvalid", "rlast", "rresp", "rdata"):
            getattr(dut, f"m_axi_{name}").value = 0
        dut.enable.value = 1
        dut.base.value = BASE
        dut.size.value = RING_SLOTS * SLOT_BYTES
        dut.gain.value = UNITY
        dut.low_water.value = self.low_water
        dut.delay_ns.value = DELAY_NS
        dut.rst.value = 1
        dut.clk.value = 0
        if self.cycles:
            self.clock = Clock(dut.clk, PERIOD_NS, unit="ns")
            self.clock.start()
        await self.clocks(3)
        dut.rst.value = 0
        await self.clocks(1)
        self.tasks = [cocotb.start_soon(self._watch_dac()), cocotb.start_soon(self._serve())]
        self.tasks += [cocotb.start_soon(self._count(name)) for name in self.faults]
        return self

    def finish(self):
        for task in self.tasks:
            task.cancel()
        if self.cycles:
            self.clock.stop()

    async def clocks(self, count):
        if self.cycles:
            await self._edges(count)
            return
        for _ in range(count):
            self.dut.clk.value = 1
            await Timer(PERIOD_NS // 2, "ns")
            self.dut.clk.value = 0
            await Timer(PERIOD_NS // 2, "ns")

    async def _edges(self, count):
        """Wait for `count` rising edges, from one of them; where the clock runs freely, without waking at each."""
        if not self.cycles:
            await ClockCycles(self.dut.clk, count)
            return
        if count > 1:
            await Timer((count - 1) * PERIOD_NS + PERIOD_NS // 4, "ns")
        await RisingEdge(self.dut.clk)

    async def _watch_dac(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.m_axis_dac_tvalid)
            await ReadOnly()
            self.dac.append(dut.m_axis_dac_tdata.value.to_signed())
            cycles = round((get_sim_time("ns") - self.tick_time) / PERIOD_NS)
            self.worst_latency = max(self.worst_latency, cycles)
            await Timer(PERIOD_NS + 1, "ns")
            assert not dut.m_axis_dac_tvalid.value, "a sample must be valid for one cycle"

    async def _count(self, name):
        """Count the cycles in which a fault is raised."""
        signal = getattr(self.dut, name)
        while True:
            await RisingEdge(signal)
            await RisingEdge(self.dut.clk)
            while signal.value:
                self.faults[name] += 1
                await RisingEdge(self.dut.clk)

    async def _serve(self):
        dut, memory, rng = self.dut, self.memory, self.rng
        while True:
            while not dut.m_axi_arvalid.value:
                await RisingEdge(dut.m_axi_arvalid)
                await RisingEdge(dut.clk)
            assert not memory.silent or not memory.bursts, "a burst after the memory had died"
            wait = rng.randint(*memory.latency)
            before_accept = rng.randint(0, wait)
            address = int(dut.m_axi_araddr.value)
            if before_accept:
                await self._edges(before_accept)
            dut.m_axi_arready.value = 1
            await RisingEdge(dut.clk)
            assert dut.m_axi_arvalid.value and int(dut.m_axi_araddr.value) == address
            assert int(dut.m_axi_arlen.value) == 15 and int(dut.m_axi_arsize.value) == 4
            assert int(dut.m_axi_arburst.value) == 1
            dut.m_axi_arready.value = 0
            assert address % SLOT_BYTES == 0 and BASE <= address < BASE + RING_SLOTS * SLOT_BYTES
            fault = memory.fault.get(len(memory.bursts))
            memory.bursts.append(address)
            if memory.silent:
                await RisingEdge(dut.clk)
                continue
            if wait > before_accept:
                await self._edges(wait - before_accept)
            for beat in range(16):
                while rng.random() < memory.pause:
                    await RisingEdge(dut.clk)
                offset = address - BASE + 16 * beat
                dut.m_axi_rdata.value = int.from_bytes(memory.data[offset : offset + 16], "little")
                dut.m_axi_rresp.value = 2 if beat == fault else rng.choice((0, 1))
                dut.m_axi_rlast.value = beat == 15
                dut.m_axi_rvalid.value = 1
                await RisingEdge(dut.clk)
                while not dut.m_axi_rready.value:
                    await RisingEdge(dut.clk)
                dut.m_axi_rvalid.value = 0

    # ---- what a host does -------------------------------------------------------------------------------------------

    async def pulse(self, name):
        getattr(self.dut, name).value = 1
        await self.clocks(1)
        getattr(self.dut, name).value = 0

    def room(self):
        return RING_SLOTS - (self.head - int(self.dut.tail.value))

    async def publish(self, slots):
        for slot in slots:
            offset = self.head % RING_SLOTS * SLOT_BYTES
            self.memory.data[offset : offset + SLOT_BYTES] = slot.pack()
            self.head += 1
        await self.write_head(self.head)

    async def write_head(self, value):
        self.dut.head_value.value = value & 0xFFFF_FFFF
        await self.pulse("head_write")

    async def stop(self):
        await self.pulse("stop")

    async def drain_events(self):
        while self.dut.event_valid.value:
            self.events.append(self.front_event())
            await self.pulse("event_pop")
            await self.clocks(1)

    def front_event(self):
        dut = self.dut
        return Event(
            KINDS[int(dut.event_kind.value)],
            int(dut.event_ns.value),
            int(dut.event_ticket.value),
            int(dut.event_position.value),
        )

    # ---- time -------------------------------------------------------------------------------------------------------

    async def tick(self, actions=()):
        """One sample period: the tick, then the actions (coroutine functions) somewhere within it."""
        dut = self.dut
        dut.tick.value = 1
        dut.tick_ns.value = tick_ns(self.tick_count)
        self.tick_time = get_sim_time("ns") + (0 if self.cycles == 0 else PERIOD_NS)
        await self.clocks(1)
        dut.tick.value = 0
        start = self.tick_time
        if self.cycles and actions:
            await self.clocks(self.rng.randint(1, self.cycles // 2))
        for action in actions:
            await action()
        if self.cycles:
            elapsed = round((get_sim_time("ns") - start) / PERIOD_NS)
            await self.clocks(max(1, self.cycles - 1 - elapsed))
        else:
            await self._run_while_busy()
        self.playing.append(bool(dut.playing.value))
        if dut.event_valid.value and not self.keep_events:
            await self.drain_events()
        self.tick_count += 1

    async def _run_while_busy(self):
        busy = 0
        while True:
            await Timer(1, "ps")
            if not self.dut.busy.value:
                break
            await self.clocks(1)
            busy += 1
            assert busy < 2000, "busy for ever"
        self.longest_busy = max(self.longest_busy, busy)

    async def run(self, model, count, script=None):
        """Run `count` ticks on the design and the model; `script(tick)` gives [(name, argument)] for both.

        Returns what the model gave; raises AssertionError at the first difference.
        """
        samples, playing = [], []
        begin, first_event = len(self.dac), len(self.events)
        for _ in range(count):
            samples.append(model.tick(tick_ns(self.tick_count)))
            playing.append(model.playing)
            actions = []
            for name, argument in script(self) if script else ():
                actions.append(self._act(model, name, argument))
            await self.tick(actions)
        assert self.playing[-count:] == playing, first_difference(self.playing[-count:], playing)
        assert self.dac[begin:] == samples, first_difference(self.dac[begin:], samples)
        if not self.keep_events:
            expected = model.events[len(model.events) - (len(self.events) - first_event) :]
            assert self.events[first_event:] == expected and len(self.events) == len(model.events), (
                self.events[first_event:],
                expected,
            )
        return np.array(samples)

    def _act(self, model, name, argument):
        """Tell the model at once and give the coroutine function that tells the design."""
        if name == "publish":
            model.publish(argument)
            return lambda: self.publish(argument)
        if name == "stop":
            model.stop()
            return self.stop
        setattr(model, name, argument)

        async def write():
            getattr(self.dut, name).value = argument
            await self.clocks(1)

        return write


def first_difference(got, expected):
    if len(got) != len(expected):
        return f"{len(got)} instead of {len(expected)}"
    at = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b)
    return f"tick {at}: {got[at : at + 8]} instead of {expected[at : at + 8]}"


class Host:
    """Writes random tickets into the ring as room allows; at times late, wrong, interrupted, louder or softer."""

    def __init__(self, seed, slot_count):
        rng = self.rng = random.Random(seed)
        self.queue = []
        ticket = rng.getrandbits(32)
        while len(self.queue) < slot_count:
            ticket = (ticket + rng.choice((1, 1, 1, 0))) & 0xFFFF_FFFF
            self.queue += self._ticket(ticket)
        self.pause = 0

    def _ticket(self, ticket):
        rng = self.rng
        rate = rng.randint(0, 1)
        style = rng.choice(("full", "mixed", "tiny", "empty"))
        if style == "empty":
            return [Slot(ticket, rng.choice((0, 7)), np.zeros(0, np.int16), rate, first=True, last=True)]
        sizes = {"full": 120, "mixed": lambda: rng.randint(1, 120), "tiny": lambda: rng.randint(1, 3)}[style]
        count = rng.randint(1, {"full": 900, "mixed": 500, "tiny": 25}[style])
        end = rng.choice(("last", "last", "empty last", "none"))
        slots = reply(ticket, noise(rng, count), rate, sizes, last=end != "none", empty_last=end == "empty last")
        for _ in range(rng.choice((0, 0, 1, 2))):
            slots.insert(rng.randint(0, len(slots)), self._wrong(ticket, rate))
        return slots

    def _wrong(self, ticket, rate):
        pcm = noise(self.rng, 120)
        return self.rng.choice(
            (
                Slot(ticket, 5, pcm, rate, first=True, count=self.rng.choice((121, 0x8000, 0xFFFF))),
                Slot(ticket, 5, pcm, self.rng.choice((2, 255)), first=True),
                Slot(ticket, 5, pcm[:0], rate, first=True),
                Slot(ticket, 5, pcm[:9], 1 - rate),
                Slot(ticket ^ 1, 5, pcm[:9], rate),
            )
        )

    def script(self, bench):
        rng, actions = self.rng, []
        if self.pause:
            self.pause -= 1
        elif self.queue and rng.random() < 0.1:
            take = min(bench.room(), rng.choice((1, 1, 2, 5, RING_SLOTS)), len(self.queue))
            if take > 0:
                actions.append(("publish", self.queue[:take]))
                del self.queue[:take]
            self.pause = rng.choice((0, 0, 0, 30, 300))
        if rng.random() < 0.001:
            actions.append(("stop", None))
        if rng.random() < 0.003:
            actions.append(("gain", rng.choice((0, 1, 0x1000, 0x4000, UNITY, UNITY, 0xFFFF))))
        if rng.random() < 0.002:
            actions.append(("low_water", rng.choice((0, 1, 100, 240, 1000))))
        rng.shuffle(actions)
        return actions


# ---- golden model ----------------------------------------------------------------------------------------------------


async def random_tickets(dut, seed, slots, **options):
    bench = await Bench(dut, seed, **options).start()
    model, host = golden(low_water=bench.low_water), Host(seed, slots)
    ticks = 0
    while host.queue or model.playing:
        await bench.run(model, 100, host.script)
        ticks += 100
        assert ticks < 40_000
    await bench.run(model, 300)
    kinds = {kind: sum(event.kind == kind for event in bench.events) for kind in KINDS}
    print(f"playback: {ticks} ticks, {len(bench.memory.bursts)} slots, {kinds}")
    record_cycles("playback", bench.worst_latency, BUDGET)
    assert bench.worst_latency <= BUDGET
    assert bench.faults["bad_head"] == bench.faults["read_error"] == bench.faults["event_overflow"] == 0
    assert len(np.unique(bench.dac)) > 50
    bench.finish()
    return bench


@cocotb.test()
async def random_tickets_match_the_golden_model(dut):
    kinds, seeds = set(), int(os.environ["SEEDS"])
    for seed in range(seeds):
        bench = await random_tickets(dut, seed, int(os.environ["TICKET_SLOTS"]), low_water=200)
        kinds |= {event.kind for event in bench.events}
    if seeds > 1:
        assert kinds == set(KINDS), "not every kind of event was seen"


@cocotb.test()
async def slow_memory_and_slow_clock_change_nothing(dut):
    await random_tickets(dut, 102, 25, cycles=256, memory=Memory(latency=(150, 200), pause=0))


@cocotb.test()
async def clocking_only_while_busy_changes_nothing(dut):
    bench = await random_tickets(dut, 101, 20, cycles=0, memory=Memory(latency=(0, 200)))
    assert bench.longest_busy > BUDGET  # it did wait for memory


# ---- times -----------------------------------------------------------------------------------------------------------


@cocotb.test()
async def reply_is_heard_at_the_times_of_its_events_with_its_own_level_and_spectrum(dut):
    bench = await Bench(dut, 1).start()
    rng = np.random.default_rng(5)
    await bench.run(model := golden(), 20)
    for index, (rate, hz, samples) in enumerate([(0, 1000, 400), (1, 3000, 600), (1, 500, 599), (0, 5000, 401)]):
        hertz = RATES[rate]
        tone = 12_000 * np.sin(2 * np.pi * hz * np.arange(samples) / hertz + 1)
        tone += rng.normal(0, 1, samples)
        pcm = np.rint(tone).astype(np.int16)
        begin, written = len(bench.dac), bench.tick_count
        todo = [[("publish", reply(index + 1, pcm, rate))]]
        await bench.run(model, 48_000 // hertz * samples + 150, lambda _, todo=todo: todo.pop() if todo else [])
        first, last = bench.events[-2:]
        assert (first.kind, first.ticket, first.position) == ("first", index + 1, 0)
        assert (last.kind, last.ticket, last.position) == ("last", index + 1, samples)
        # Sample n is heard n periods after the first.
        assert abs(last.ns - first.ns - (samples - 1) * 1e9 / hertz) <= 1
        # From the write of the head to the first sample that can be heard.
        wait_ms = (first.ns - tick_ns(written)) / 1e6
        print(f"playback at {hertz} Hz: head write to first sample at the DAC {wait_ms:.3f} ms, filter included")
        assert wait_ms < 1
        # A float reference on the DAC's own time axis: what is heard at time t is the reply at t - first.
        heard = np.array(bench.dac[begin:], dtype=float)
        dac_ns = np.array([tick_ns(begin + i) for i in range(len(heard))]) + DAC_DELAY_NS
        at = (dac_ns - first.ns) * 1e-9 * hertz
        inside = (at > 40) & (at < samples - 40)
        reference = 12_000 * np.sin(2 * np.pi * hz * at / hertz + 1)
        error = heard - reference
        # +-0.1 dB of the filter is 1.2 %, and a time wrong by one tick would be 13 % at 1 kHz.
        assert np.abs(error[inside]).max() < 0.012 * 12_000 + 6
        gain = (heard[inside] @ reference[inside]) / (reference[inside] @ reference[inside])
        print(f"playback at {hertz} Hz: {hz} Hz has a gain of {20 * np.log10(gain):+.3f} dB")
        assert abs(20 * np.log10(gain)) < 0.1
        ideal = resample_poly(pcm.astype(float), 48_000 // hertz, 1, window=("kaiser", 12.0))
        start = round((first.ns - DAC_DELAY_NS - tick_ns(begin)) * 48e-6)
        window = slice(120, 2 * samples - 120)
        assert np.abs(heard[start:][window] - ideal[window]).max() < 0.012 * 12_000 + 6
        # No image of the tone is left.
        spectrum = np.abs(np.fft.rfft(heard[inside] * blackmanharris(inside.sum())))
        hertzes = np.fft.rfftfreq(inside.sum(), 1 / 48_000)
        image = spectrum[np.abs(hertzes - hz) > 200].max() / spectrum.max()
        print(f"playback at {hertz} Hz: everything but the tone is {20 * np.log10(image):.1f} dB")
        assert 20 * np.log10(image) < -69
    bench.finish()


@cocotb.test()
async def whole_reply_is_heard_and_nothing_of_it_leaks_into_the_next(dut):
    bench = await Bench(dut, 2).start()
    model = golden()
    pulse = np.zeros(120, dtype=np.int16)
    pulse[-1] = 20_000
    silence = np.zeros(240, dtype=np.int16)
    for rate, up in ((0, 3), (1, 2)):
        begin = len(bench.dac)
        todo = [[("publish", reply(10 + rate, pulse, rate) + reply(20 + rate, silence, 1 - rate))]]
        await bench.run(model, 1200, lambda _, todo=todo: todo.pop() if todo else [])
        heard = np.array(bench.dac[begin:])
        response = np.rint(read_table(TABLES[rate]) * 20_000 / 65_536)
        start = np.argmax(heard) - 28
        assert np.abs(heard[start : start + 57] - response).max() <= 1
        assert not heard[:start].any() and not heard[start + 57 :].any()
        assert [event.kind for event in bench.events[-4:]] == ["first", "last"] * 2
        # The response peaks in its centre, and that is when the sample is heard.
        last = bench.events[-3]
        assert abs(tick_ns(begin + int(np.argmax(heard))) + DAC_DELAY_NS - last.ns) <= 1
        # The next ticket starts when the tail has left.
        assert bench.events[-2].ns - last.ns == pytest.approx(-(-57 // up) * up * 1e9 / 48_000, abs=2)
    bench.finish()


@cocotb.test()
async def late_slot_leaves_one_gap_and_one_event(dut):
    bench = await Bench(dut, 3).start()
    model = golden()
    slots = reply(7, noise(random.Random(3), 480))
    script = {0: slots[:2], 1000: slots[2:3], 1001: slots[3:]}
    await bench.run(model, 2000, lambda b: [("publish", script[b.tick_count])] if b.tick_count in script else [])
    assert [(event.kind, event.position) for event in bench.events] == [("first", 0), ("underrun", 240), ("last", 480)]
    first, underrun, last = bench.events
    # The gap starts when sample 240 would have been heard.
    assert abs(underrun.ns - first.ns - 240 * 62_500) <= 1
    # It ends at an input period after the slot's release, which is four ticks after it was published.
    assert 0 <= (last.ns - first.ns - 479 * 62_500) - (1004 - 4 - 720) * 62_500 / 3 <= 62_500
    bench.finish()


@cocotb.test()
async def low_water_comes_once_a_fall(dut):
    bench = await Bench(dut, 4, low_water=200).start()
    model = golden(low_water=200)
    slots = reply(7, noise(random.Random(4), 120 * 8))
    script = {0: slots[:3], 900: slots[3:6], 2000: slots[6:]}
    await bench.run(model, 3100, lambda b: [("publish", script[b.tick_count])] if b.tick_count in script else [])
    falls = [(event.kind, event.position) for event in bench.events if event.kind in ("low_water", "last")]
    # 199 samples left of 360, of 720, and none of the end, whose last slot has begun to play by then.
    assert falls == [("low_water", 161), ("low_water", 521), ("low_water", 761), ("last", 960)]
    bench.finish()


# ---- stop and gain ---------------------------------------------------------------------------------------------------


@cocotb.test()
async def stop_ramps_down_in_2_ms_and_reports_the_last_sample_heard(dut):
    bench = await Bench(dut, 5).start()
    model = golden()
    loud = np.full(120 * 12, 16_000, dtype=np.int16)
    at = 700
    script = {5: ("publish", reply(3, loud, 0)), at: ("stop", None), at + 30: ("publish", reply(4, loud[:240], 1))}
    await bench.run(model, 2000, lambda b: [script[b.tick_count]] if b.tick_count in script else [])
    heard = np.array(bench.dac, dtype=float)
    ramp = heard[at + 1 : at + 97] / heard[at]
    assert np.abs(ramp - (1 - np.arange(1, 97) / 96)).max() < 0.01
    kinds = [(event.kind, event.ticket) for event in bench.events]
    assert kinds == [("first", 3), ("stopped", 3), ("first", 4), ("last", 4)]
    first, stopped = bench.events[:2]
    # What is heard last is heard when the ramp ends, and is that much of the reply.
    assert 0 <= tick_ns(at + 96) + DAC_DELAY_NS - stopped.ns < 62_501
    assert stopped.position == round((stopped.ns - first.ns) / 62_500) + 1
    # The next reply starts as soon as a slot can be read, with its full level.
    restart = round((bench.events[2].ns - DELAY_NS) * 48e-6)
    assert restart == at + 97 + 4
    assert not heard[at + 97 : restart].any() and heard[restart + 60 : restart + 400].min() > 15_700
    bench.finish()


@cocotb.test()
async def every_stop_is_answered_and_discards_what_was_published_before_it(dut):
    rng = random.Random(6)
    for trial in range(8):
        slow = rng.random() < 0.5
        memory = Memory(latency=(0, 120)) if slow else Memory()
        bench = await Bench(dut, trial, cycles=160 if slow else 52, memory=memory).start()
        model = golden()
        old, new = noise(rng, 120 * rng.randint(1, 9)), noise(rng, 100)
        late = [Slot(1, len(old), noise(rng, 50)), Slot(1, len(old) + 50, noise(rng, 50), last=True)]
        when, again = rng.choice((0, 1, 2, 3, 4, 5, 6, rng.randint(7, 250))), rng.randint(1, 120)
        script = {
            0: [("publish", reply(1, old, 0)), ("stop", None)][: 2 if when == 0 else 1],
            when + again: [("publish", late)],
            when + again + 1: [("publish", reply(2, new, 1))],
        }
        if when:
            script[when] = [("stop", None)]
        await bench.run(model, 750, lambda b, script=script: script.get(b.tick_count, []))
        kinds = [(event.kind, event.ticket) for event in bench.events]
        assert kinds.count(("stopped", 1)) + kinds.count(("stopped", 0)) == 1
        assert kinds[-2:] == [("first", 2), ("last", 2)]
        # The rest of the old reply, which came after the stop, is neither heard nor a fault.
        assert bench.faults["bad_slot"] == 0 and int(dut.tail.value) == bench.head
        bench.finish()


@cocotb.test()
async def stop_of_nothing_reports_the_last_reply(dut):
    bench = await Bench(dut, 7).start()
    model = golden()
    script = {3: ("stop", None), 9: ("publish", reply(8, noise(random.Random(7), 30))), 400: ("stop", None)}
    await bench.run(model, 500, lambda b: [script[b.tick_count]] if b.tick_count in script else [])
    assert [(e.kind, e.ticket, e.position) for e in bench.events] == [
        ("stopped", 0, 0),
        ("first", 8, 0),
        ("last", 8, 30),
        ("stopped", 8, 30),
    ]
    assert bench.events[-1].ns == bench.events[-2].ns
    bench.finish()


@cocotb.test()
async def gain_moves_by_no_more_than_its_full_scale_in_2_ms(dut):
    bench = await Bench(dut, 8).start()
    model = golden()
    flat = np.full(1900, 16_384, dtype=np.int16)
    script = {0: ("publish", reply(1, flat)), 500: ("gain", 0x2000), 900: ("gain", 0xFFFF), 1300: ("gain", 0)}
    await bench.run(model, 1500, lambda b: [script[b.tick_count]] if b.tick_count in script else [])
    heard = np.array(bench.dac, dtype=float)
    assert np.abs(np.diff(heard[400:1500])).max() <= 16_500 / 96 + 2
    for tick, level in ((499, 1), (500 + 73, 0.25), (899, 0.25), (900 + 73, 1), (1300 + 97, 0)):
        assert abs(heard[tick] - 16_384 * level) < 0.012 * 16_384
    assert heard[500 + 60] > 0.27 * 16_384 and heard[1300 + 90] > 0.03 * 16_384
    bench.finish()


# ---- faults ----------------------------------------------------------------------------------------------------------


@cocotb.test()
async def malformed_slots_are_skipped_and_flagged(dut):
    bench = await Bench(dut, 9).start()
    model = golden()
    rng = random.Random(9)
    good = reply(5, noise(rng, 360))
    bad = [
        Slot(5, 0, noise(rng, 120), count=121),
        Slot(5, 0, noise(rng, 120), rate=2),
        Slot(5, 0, noise(rng, 0)),
        Slot(5, 0, noise(rng, 9), rate=1),  # not the ticket's rate
        Slot(6, 0, noise(rng, 9)),  # no ticket is open
    ]
    slots = [good[0], bad[0], bad[1], good[1], bad[2], bad[3], good[2], bad[4]]
    await bench.run(model, 1300, lambda b: [("publish", slots)] if b.tick_count == 0 else [])
    assert bench.faults["bad_slot"] == len(bad)
    assert int(dut.tail.value) == len(slots) and int(dut.level.value) == 0
    assert [event.kind for event in bench.events] == ["first", "underrun", "last"]
    bench.finish()


@cocotb.test()
async def failed_reads_publish_nothing(dut):
    memory = Memory(fault={1: 0, 3: 15, 5: 7})
    bench = await Bench(dut, 10, memory=memory).start()
    model = golden()
    slots = reply(5, noise(random.Random(10), 120 * 8))
    # The model gets the slots that failed as malformed ones: neither is heard.
    seen = [replace(slot, rate=9) if i in memory.fault else slot for i, slot in enumerate(slots)]
    model.publish(seen)
    await bench.publish(slots)
    await bench.run(model, 2000)
    assert bench.faults["read_error"] == 3 and bench.faults["bad_slot"] == 0
    assert int(dut.tail.value) == 8
    bench.finish()


@cocotb.test()
async def memory_that_does_not_answer_stops_new_bursts_until_reset(dut):
    for silent_address in (False, True):
        bench = await Bench(dut, 11, memory=Memory(silent=True)).start()
        if silent_address:
            bench.tasks[1].cancel()
        await bench.publish(reply(5, noise(random.Random(11), 360)))
        await bench.clocks(TIMEOUT_CYCLES - 50)
        assert not dut.timeout.value and dut.busy.value
        await bench.clocks(150)
        assert dut.timeout.value and not dut.busy.value and not dut.idle.value
        await bench.run(golden(), 100)
        assert len(bench.memory.bursts) == (0 if silent_address else 1) and not np.any(bench.dac)
        bench.finish()
    bench = await Bench(dut, 11).start()
    assert not dut.timeout.value and dut.idle.value
    bench.finish()


@cocotb.test()
async def addresses_outside_the_window_are_never_read(dut):
    bench = await Bench(dut, 12).start()
    model = golden()
    dut.base.value = BASE + 0x100
    slots = reply(5, noise(random.Random(12), 240))
    model.publish(slots)
    await bench.publish(slots)
    size = RING_SLOTS * SLOT_BYTES
    for base, length in ((BASE + 0x100, size), (BASE, size - 1), ((1 << 40) + BASE, size), (BASE, 0)):
        dut.base.value = base
        dut.size.value = length
        await bench.clocks(100)
        assert dut.window_fault.value and not bench.memory.bursts and dut.idle.value and not dut.busy.value
    dut.base.value = BASE
    dut.size.value = size
    await bench.clocks(100)
    assert not dut.window_fault.value and len(bench.memory.bursts) == 2
    await bench.run(model, 10)
    bench.finish()


@cocotb.test()
async def impossible_heads_are_ignored_and_flagged(dut):
    bench = await Bench(dut, 13).start()
    dut.enable.value = 0
    await bench.publish(reply(5, noise(random.Random(13), 360)))
    for value in (RING_SLOTS + 1, 2, 0, -1, 1 << 31):
        await bench.write_head(value)
        await bench.clocks(2)
        assert int(dut.head.value) == 3
    assert bench.faults["bad_head"] == 5
    for value in (3, RING_SLOTS):
        await bench.write_head(value)
        await bench.clocks(2)
        assert int(dut.head.value) == value
    assert bench.faults["bad_head"] == 5
    bench.finish()


@cocotb.test()
async def quiesce_ends_the_burst_under_way_and_starts_no_other(dut):
    bench = await Bench(dut, 14, memory=Memory(latency=(40, 40))).start()
    await bench.publish(reply(5, noise(random.Random(14), 960)))
    await bench.clocks(10)
    dut.quiesce.value = 1
    await bench.clocks(3)
    assert not dut.idle.value
    await bench.clocks(200)
    assert dut.idle.value and not dut.busy.value and len(bench.memory.bursts) == 1
    dut.quiesce.value = 0
    await bench.clocks(500)
    assert len(bench.memory.bursts) == 4  # as many slots as are read ahead
    assert int(dut.tail.value) == 4 and int(dut.level.value) == 480
    bench.finish()


@cocotb.test()
async def events_beyond_sixteen_are_lost_and_flagged(dut):
    bench = await Bench(dut, 15).start()
    bench.keep_events = True
    model = golden()
    for tick in range(10):
        slots = reply(tick, noise(random.Random(tick), 1))
        await bench.run(model, 90, lambda b, s=slots, t=tick: [("publish", s)] if b.tick_count == 90 * t else [])
        assert int(dut.event_count.value) == min(16, 2 * (tick + 1))
    assert bench.faults["event_overflow"] == 4
    await bench.drain_events()
    assert bench.events == model.events[:16] and int(dut.event_count.value) == 0
    assert int(dut.event_ns.value) == 0
    bench.finish()


# ---- what pytest runs ------------------------------------------------------------------------------------------------


def test_playback(simulator):
    simulate(
        simulator,
        "playback",
        SOURCES,
        __name__,
        parameters={
            "SLOTS": RING_SLOTS,
            "TIMEOUT_CYCLES": TIMEOUT_CYCLES,
            "COEF_16K": f'"{TABLES[0]}"',
            "COEF_24K": f'"{TABLES[1]}"',
        },
        # Icarus is many times slower: a short second opinion.
        env={"SEEDS": "2", "TICKET_SLOTS": "90"}
        if simulator == "verilator"
        else {"SEEDS": "1", "TICKET_SLOTS": "25", "COCOTB_TEST_FILTER": "random|ramps|malformed|address|quiesce|heads"},
    )
