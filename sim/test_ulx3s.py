"""The ULX3S from its pins: an I2S converter on one side, the host on the serial line on the other."""

import re

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotb.utils import get_sim_time

import register_block
from bench import ROOT, RTL, simulate
from serial_host import SerialHost
from voxpath.boards import registers
from voxpath.link import frame, uart

BOARD = ROOT / "fpga" / "boards" / "ulx3s"
OSCILLATOR_HZ = 25_000_000
BIT_NS = 500  # 2 Mbaud


def pll_hz(pll):
    """(CLKOP, CLKOS) of an EHXPLLL: the oscillator of the PLL is CLKOP x CLKOP_DIV, and CLKOP comes back to CLKFB."""
    value = lambda name: int(getattr(pll, name).value)  # noqa: E731
    op = OSCILLATOR_HZ / value("CLKI_DIV") * value("CLKFB_DIV")
    vco = op * value("CLKOP_DIV")
    assert 400e6 <= vco <= 800e6, "the range of the PLL's oscillator (Lattice FPGA-DS-02012)"
    return op, vco / value("CLKOS_DIV")


async def converter(dut, left):
    """Sends `left` (24 bit) over and over on the left, zeros on the right; `dut._heard` is what the DAC side gets."""
    heard, index = [], 0
    await FallingEdge(dut.adc_lrck)
    while True:
        sent, got = left[index % len(left)] & 0xFFFFFF, 0
        for slot in range(64):
            await FallingEdge(dut.adc_sclk) if slot else Timer(1, "ns")
            dut.adc_sdout.value = sent >> (24 - slot) & 1 if 1 <= slot <= 24 else 0
            await RisingEdge(dut.dac_sclk)
            if 1 <= slot <= 24:
                got = got << 1 | int(dut.dac_sdin.value)
        heard.append(got - (got >> 23 << 24))
        index += 1
        dut._heard = heard
        await FallingEdge(dut.adc_lrck)


@cocotb.test()
async def sound_goes_in_and_comes_out(dut):
    fabric, audio = dut.clocks.fabric_pll, dut.clocks.audio_pll
    (fabric_hz, _), (loop_hz, audio_hz) = pll_hz(fabric), pll_hz(audio)
    assert fabric_hz == 50e6 and loop_hz == 25e6
    assert abs(audio_hz / 256 - 48_000) < 1, "48 kHz within 20 ppm"
    host = SerialHost(dut.ftdi_txd, dut.ftdi_rxd, BIT_NS)
    dut.btn.value, dut.adc_sdout.value = 0, 0
    for pll in (fabric, audio):
        pll.drawn_lock.value = 0
    Clock(fabric.drawn_op, 20, unit="ns").start()
    Clock(audio.drawn_os, 2 * round(0.5e12 / audio_hz), unit="ps").start()
    await Timer(300, "ns")
    assert int(dut.rst.value) and int(dut.mclk_rst.value) and int(dut.ftdi_rxd.value)
    fabric.drawn_lock.value = audio.drawn_lock.value = 1
    await Timer(2, "us")
    assert int(dut.rst.value), "the button holds it"
    dut.btn.value = 1
    host.start()

    tone = np.round(2**21 * np.sin(2 * np.pi * np.arange(48) / 48)).astype(int)  # 1 kHz
    cocotb.start_soon(converter(dut, [int(sample) for sample in tone]))
    await Timer(20, "us")
    assert await host.read(registers.ID) == 0x56585046
    await host.write(registers.HEARTBEAT, 1)
    await host.write(registers.DENOISE, 1)  # bypassed: a steady tone is noise to it
    await host.write(registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE)
    assert int(dut.led.value) & 0x7F == 0x01 and int(dut.wifi_gpio0.value)

    # A reply of one slot, 300 Hz at 24 kHz, while frames come.
    reply = (8000 * np.sin(2 * np.pi * np.arange(120) / 80)).astype("<i2")
    host.say(uart.Slot(0, 1, 0, 1, 3, reply.tobytes()).pack())
    frames, events = host.received[uart.Captured], host.received[uart.Event]
    while len(frames) < 4:
        await Timer(100, "us")
    (last,) = frame.parse(frames[-1].data)
    assert last.sequence - next(iter(frame.parse(frames[0].data))).sequence == 3
    spectrum = np.abs(np.fft.rfft(last.pcm))
    assert np.argmax(spectrum) == 4, "1 kHz is the fourth of 64 lines at 16 kHz"
    # 2^21 of 2^23 is a quarter of full scale, and the resampler is flat there within 0.1 dB.
    assert 8_090 < np.abs(last.pcm).max() < 8_290
    assert [event.kind for event in events if event.kind != 4] == [0, 1]
    await Timer(1500, "us")
    heard = np.array(dut._heard) >> 8
    loud = np.flatnonzero(np.abs(heard) > 100)
    assert 230 <= loud[-1] - loud[0] <= 300 and 7500 < np.abs(heard).max() < 8600
    assert host.decoder.dropped == 0 and not int(dut.led.value) & 0x08

    # Pressed again, the board starts anew: nothing is enabled.
    dut.btn.value = 0
    await Timer(5, "us")
    dut.btn.value = 1
    await Timer(20, "us")
    assert await host.read(registers.CONTROL) & 3 == 0
    print(f"ulx3s: MCLK {audio_hz:,.0f} Hz, {get_sim_time('ms'):.1f} ms simulated")


def test_sound_goes_from_the_converter_to_the_host_and_back():
    sources = [*register_block.sources(), *sorted(RTL.glob("*.sv")), ROOT / "sim/rtl/EHXPLLL.sv"]
    sources += [BOARD / "ulx3s_clocks.sv", BOARD / "ulx3s.sv"]
    simulate("verilator", "ulx3s", sources, __name__, parameters={"FILTERS": f'"{ROOT}/fpga/filters/"'})


def test_every_port_of_the_top_has_its_pin():
    ports = set()
    text = (BOARD / "ulx3s.sv").read_text()
    for width, name in re.findall(r"(?:input|output)\s+logic\s*(\[\d+:0\])?\s*(\w+)", text[: text.index(");")]):
        ports |= {f"{name}[{bit}]" for bit in range(int(width[1:-3]) + 1)} if width else {name}
    pins = dict(re.findall(r'LOCATE COMP "([^"]+)" SITE "(\w+)"', (BOARD / "ulx3s.lpf").read_text()))
    assert set(pins) == ports and len(ports) == 21
    assert len(set(pins.values())) == len(pins), "no pin twice"
    assert set(re.findall(r'IOBUF PORT "([^"]+)".*IO_TYPE=LVCMOS33', (BOARD / "ulx3s.lpf").read_text())) == ports
