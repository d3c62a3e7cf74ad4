"""hibari's two networks on the CPU."""

from pathlib import Path

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.hibari import Voice
from voxpath.engines.ort import session
from voxpath.models.hibari import read_description


def voice(model: Path) -> Voice:
    """The exported hibari in a folder."""
    return Voice(read_description(model), _Networks(model))


class _Networks:
    """Both networks. For any number of threads."""

    def __init__(self, model: Path):
        self._text = session.load(model / "text.onnx")
        self._spectra = session.load(model / "spectra.onnx")

    def text(self, ids: list[int], cancel: Cancel | None) -> dict[str, np.ndarray]:
        """As voxpath.engines.hibari says."""
        return session.run(self._text, {"ids": np.array([ids]), "speed": np.ones(1, np.float32)}, cancel)

    def spectra(self, inputs: dict[str, np.ndarray], cancel: Cancel | None) -> list[np.ndarray]:
        """As voxpath.engines.hibari says."""
        return list(session.run(self._spectra, inputs, cancel).values())
