"""The `model.json` beside every converted model: what its runner must know, as a dataclass of its exporter."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from voxpath.errors import ModelError

Kind = TypeVar("Kind")


def write(description, folder: Path) -> None:
    """Store a dataclass."""
    (folder / "model.json").write_text(json.dumps(asdict(description), ensure_ascii=False), encoding="utf-8")


def read(kind: type[Kind], folder: Path) -> Kind:
    """The dataclass `kind` that was stored in `folder`. Raises ModelError if there is none."""
    try:
        return kind(**json.loads((folder / "model.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(
            f"{folder} is not a converted model ({error}); if it is in the cache, delete it to have it made again."
        ) from error
