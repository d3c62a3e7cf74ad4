"""ONNX Runtime sessions that use one thread and can be interrupted."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.errors import ModelError


def _options(sizes: Mapping[str, int]) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors alone; an interrupted run is not one for the user
    return options


def load(
    path: Path, providers: Sequence = ("CPUExecutionProvider",), sizes: Mapping[str, int] = MappingProxyType({})
) -> onnxruntime.InferenceSession:
    """A session, on the CPU unless told otherwise; `sizes` fixes dimensions that the file leaves open, by name.

    Raises ModelError if the file is missing, broken, or needs a newer runtime.
    """
    try:
        return onnxruntime.InferenceSession(str(path), _options(sizes), providers=list(providers))
    except Exception as error:  # the runtime's own errors have no common base but this
        raise _broken(path, error) from error


def load_tokenizer(path: Path) -> Tokenizer:
    """Raises ModelError if the file is missing or broken."""
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # as above
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> ModelError:
    reason = (str(error).splitlines() or ["no reason given"])[0]
    return ModelError(f"{path} cannot be loaded ({reason}); if it is in the cache, delete {path.parent} and try again.")


def run(
    session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray], cancel: Cancel | None = None
) -> dict[str, np.ndarray]:
    """All outputs by name. Raises Cancelled if `cancel` is set before the end."""
    names = [output.name for output in session.get_outputs()]
    with interruptible(cancel) as options:
        return dict(zip(names, session.run(names, inputs, options), strict=True))


@contextlib.contextmanager
def interruptible(cancel: Cancel | None) -> Iterator[onnxruntime.RunOptions | None]:
    """Run options for the body's runs; setting `cancel` ends a run before its next operator, as Cancelled."""
    if cancel is None:
        yield None
        return
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4

    def interrupt() -> None:
        options.terminate = True

    with cancel.interrupting(interrupt):
        try:
            yield options
        except Exception as error:
            if cancel.is_set:
                raise Cancelled from error
            raise
