"""hibari's two networks on a GPU: inputs are padded to one of a few lengths, since a step is captured for one."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from voxpath.engines import vocoder
from voxpath.engines.cancel import Cancel
from voxpath.engines.cuda.device import Gpu
from voxpath.engines.hibari import CHUNKS, HALO, LONGEST, Voice
from voxpath.models.hibari import LENGTH, THERE, Description, read_description

PHONEMES = (32, 64, 128, LONGEST + 2)
# A chunk has a halo on either side; the first has none before it, and the last is up to a halo longer.
FRAMES = (48, CHUNKS[0] + HALO, CHUNKS[1] + 2 * HALO, CHUNKS[2] + 2 * HALO)


def voice_on(gpu: Gpu, model: Path) -> Voice:
    """The hibari in a folder that voxpath.models.hibari exported as floats."""
    description = read_description(model)
    return Voice(description, _Networks(gpu, model, description))


class _Networks:
    """Both networks. One call at a time; others wait."""

    def __init__(self, gpu: Gpu, model: Path, description: Description):
        self._gpu = gpu
        self._lock = threading.Lock()
        gpu.run(self._load, model, description)

    def text(self, ids: list[int], cancel: Cancel | None) -> dict[str, np.ndarray]:
        """As voxpath.engines.hibari says."""
        with self._lock:
            return self._gpu.run(_fitting(self._text, len(ids)), {"ids": np.array([ids])})

    def spectra(self, inputs: dict[str, np.ndarray], cancel: Cancel | None) -> list[np.ndarray]:
        """As voxpath.engines.hibari says."""
        with self._lock:
            frames = next(iter(inputs.values())).shape[-1]
            return list(self._gpu.run(_fitting(self._spectra, frames), inputs).values())

    def _load(self, model: Path, d: Description) -> None:
        self._text, self._spectra = {}, {}
        for n in FRAMES:
            network = self._gpu.load(model / "spectra.onnx", **{LENGTH: n})
            channels = {tensor.name: tensor.shape[1] for tensor in network.get_inputs() if tensor.name != THERE}
            inputs = {name: self._gpu.zeros(1, size, n) for name, size in channels.items()}
            *parts, pitch = (tensor.name for tensor in network.get_outputs())
            outputs = {name: self._gpu.zeros(1, vocoder.BINS, 2 * n) for name in parts}
            outputs[pitch] = self._gpu.zeros(1, 2 * n)
            self._spectra[n] = _Padded(self._gpu, network, n, inputs, outputs)
        features = {feature: channels[name] for feature, name in zip(d.features, d.repeated, strict=True)}
        for n in PHONEMES:
            network = self._gpu.load(model / "text.onnx", **{LENGTH: n})
            inputs = {"ids": self._gpu.zeros(1, n, dtype=np.int64)}
            outputs = {name: self._gpu.zeros(1, size, n) for name, size in features.items()}
            outputs[d.durations] = self._gpu.zeros(n)
            self._text[n] = _Padded(self._gpu, network, n, inputs, outputs, speed=1.0)


class _Padded:
    """A network for one number of phonemes or frames, which runs for fewer as well."""

    def __init__(self, gpu: Gpu, network, length: int, inputs: dict, outputs: dict, **constants: float):
        self._gpu, self._length, self._inputs, self._outputs = gpu, length, inputs, outputs
        self._there = gpu.zeros(1, 1, length)
        fixed = {name: gpu.zeros(1) for name in constants}
        for name, value in constants.items():
            fixed[name].write([value])
        self._there.write(np.ones(length))
        self._launch = gpu.step(network, {**inputs, **fixed, THERE: self._there}, outputs)

    def __call__(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        count = next(iter(values.values())).shape[-1]
        self._there.write(np.arange(self._length) < count)
        for name, value in values.items():
            self._inputs[name].write(np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, self._length - count)]))
        self._launch()
        views = {name: buffer.read().reshape(buffer.shape) for name, buffer in self._outputs.items()}
        self._gpu.wait()
        return {name: view[..., : count * view.shape[-1] // self._length].copy() for name, view in views.items()}


def _fitting(networks: dict[int, _Padded], count: int) -> _Padded:
    """The one that wastes least on `count` phonemes or frames."""
    return next(networks[length] for length in sorted(networks) if count <= length)
