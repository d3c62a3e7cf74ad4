"""TensorRT engines, built ahead of time: neither a GPU nor its driver is needed for it.

The builder is TensorRT for RTX (the packages `tensorrt-rtx-cu13-libs` and `-bindings`), which can build for a GPU that
is not there. Networks are strongly typed: they run in the number types that the exporters wrote, since there are no
precision flags any more. No timing cache is used, which would need the GPU. Nothing here runs an engine yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from voxpath.errors import ModelError
from voxpath.models.fetch import Progress, entry

Sizes = Mapping[str, tuple[int, int, int]]  # by the name of a dimension: the least, the usual, the most
DECODER: tuple[Sizes, ...] = (  # one token, and what is known before
    {"n": (1, 1, 1), "rows": (1, 1, 1)},
    {"n": (2, 16, 64), "rows": (1, 17, 65)},
)
PHONEMES: tuple[Sizes, ...] = ({"n": (3, 64, 402)},)
FRAMES: tuple[Sizes, ...] = ({"n": (1, 100, 264)},)


def library():
    """TensorRT for RTX. Raises ModelError if it is not installed."""
    try:
        import tensorrt_rtx_bindings as tensorrt
        import tensorrt_rtx_libs  # noqa: F401  (loads the libraries that the bindings want)
    except ImportError as error:
        raise ModelError(
            f"TensorRT for RTX is not installed ({error}): "
            "pip install tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings."
        ) from error
    return tensorrt


def engine(
    network: Path,
    profiles: Sequence[Sizes] = (),
    capability: tuple[int, int] = (8, 9),
    progress: Progress | None = None,
) -> Path:
    """The file of a network's engine, out of the cache or built. Arguments and errors as those of `build`.

    Its name holds what it was made from and with: the model's folder, profiles, compute capability, library.
    """
    tensorrt = library()
    # A converted model's folder is named by what it was made from, and its files never change.
    made_from = f"{network.resolve()} {network.stat().st_mtime_ns} {profiles} {capability} {tensorrt.__version__}"
    key = hashlib.sha256(made_from.encode()).hexdigest()[:12]

    def make(folder: Path) -> None:
        if progress:
            progress(f"building the engine of {network.name}", 0.0)
        (folder / "engine").write_bytes(build(network, profiles, capability))

    return entry(f"tensorrt-{network.stem}-{key}", make, progress) / "engine"


def build(network: Path, profiles: Sequence[Sizes] = (), capability: tuple[int, int] = (8, 9)) -> bytes:
    """An engine of the ONNX file `network` for GPUs of a compute capability.

    Each of `profiles` gives the sizes that the engine is made for; every open dimension needs one. Raises ModelError if
    the file cannot be read, has an operator that TensorRT does not know, or an open dimension without a size.
    """
    tensorrt = library()
    builder = tensorrt.Builder(tensorrt.Logger(tensorrt.Logger.ERROR))
    typed = 1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    definition = builder.create_network(typed)
    parser = tensorrt.OnnxParser(definition, tensorrt.Logger(tensorrt.Logger.ERROR))
    if not parser.parse_from_file(str(network)):
        reason = parser.get_error(0).desc() if parser.num_errors else "no reason given"
        raise ModelError(f"TensorRT cannot take {network} ({reason.splitlines()[0]}).")
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(_capability(tensorrt, capability), 0)
    tensors = [definition.get_input(index) for index in range(definition.num_inputs)]
    for sizes in profiles:
        profile = builder.create_optimization_profile()
        for tensor in tensors:
            if -1 in tuple(tensor.shape):
                profile.set_shape(tensor.name, *(_shape(network, tensor, sizes, which) for which in range(3)))
        config.add_optimization_profile(profile)
    made = builder.build_serialized_network(definition, config)
    if made is None:
        raise ModelError(f"TensorRT could not build an engine of {network}.")
    return bytes(made)


def _shape(network: Path, tensor, sizes: Sizes, which: int) -> list[int]:
    names = [tensor.get_dimension_name(index) for index in range(len(tensor.shape))]
    open_names = {name for name, size in zip(names, tensor.shape, strict=True) if size == -1}
    if missing := open_names - sizes.keys():
        raise ModelError(f"{tensor.name} of {network} needs a size for {', '.join(sorted(missing))}.")
    return [sizes[name][which] if size == -1 else size for name, size in zip(names, tensor.shape, strict=True)]


def _capability(tensorrt, capability: tuple[int, int]):
    name = "SM{}{}".format(*capability)
    try:
        return getattr(tensorrt.ComputeCapability, name)
    except AttributeError:
        raise ModelError(f"TensorRT for RTX builds no engines for compute capability {name[2:]}.") from None
