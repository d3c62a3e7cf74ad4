"""A stream of an NVIDIA GPU: buffers that stay there, networks, and steps that are captured once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from math import prod
from pathlib import Path

import numpy as np
import onnxruntime

from voxpath.engines.ort import session
from voxpath.errors import ModelError

_PROVIDER = "CUDAExecutionProvider"


class Gpu:
    """One stream, and the one thread that gives it work: ONNX Runtime keeps what it has captured by thread."""

    def __init__(self, name: str, urgent: bool = False):
        """A stream of the first GPU, before others if it is `urgent`. Raises ModelError if there is none to use."""
        self._cuda = _runtime()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        least, greatest = self._call("cudaDeviceGetStreamPriorityRange")
        flags = self._cuda.cudaStreamNonBlocking
        self._stream = self._call("cudaStreamCreateWithPriority", flags, greatest if urgent else least)
        self._captures = count(1)

    def run(self, work: Callable, *arguments):
        """What `work(*arguments)` returns, called in the stream's thread. The steps of a capture must all be."""
        return self.start(work, *arguments).result()

    def start(self, work: Callable, *arguments) -> Future:
        """As `run`, without waiting: what is run later waits for it."""
        return self._thread.submit(work, *arguments)

    def load(self, path: Path, **sizes: int) -> onnxruntime.InferenceSession:
        """A session on this stream; `sizes` fixes dimensions that the file leaves open. Raises ModelError."""
        options = {
            "device_id": "0",
            "user_compute_stream": str(int(self._stream)),
            "enable_cuda_graph": "1",
            "use_tf32": "0",  # ten bits are too few for a Fourier transform
            "cudnn_conv_algo_search": "HEURISTIC",
            "arena_extend_strategy": "kSameAsRequested",
        }
        loaded = session.load(path, [(_PROVIDER, options), "CPUExecutionProvider"], sizes)
        if loaded.get_providers()[0] != _PROVIDER:
            raise ModelError("ONNX Runtime cannot use the GPU: see `run.py doctor` for CUDA's and cuDNN's libraries.")
        return loaded

    def zeros(self, *shape: int, dtype=np.float32) -> Buffer:
        """A buffer on the GPU. Raises ModelError if there is no room."""
        return Buffer(self, shape, np.dtype(dtype))

    def step(
        self,
        network: onnxruntime.InferenceSession,
        inputs: Mapping[str, Buffer | np.ndarray],
        outputs: Mapping[str, Buffer],
    ) -> Callable[[], None]:
        """A function that has `network` run on buffers, and on arrays that stay as they are.

        Inputs and outputs may share buffers. It runs a few times now, which captures it.
        """
        binding = bound(network, inputs, outputs)
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(next(self._captures)))
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")

        def launch() -> None:
            network.run_with_iobinding(binding, options)

        launch()
        self.wait()
        return launch

    def wait(self) -> None:
        """Until all that was launched is done."""
        self._call("cudaStreamSynchronize", self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Bytes from one address to another, on the host or the GPU, in the stream's order."""
        self._call("cudaMemcpyAsync", target, source, size, self._cuda.cudaMemcpyKind.cudaMemcpyDefault, self._stream)

    def pinned(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Page-locked memory of the host, as long as the program runs."""
        size = prod(shape) * dtype.itemsize
        address = self._call("cudaMallocHost", size)
        return np.frombuffer(_bytes_at(address, size), dtype).reshape(shape)

    def _call(self, name: str, *arguments):
        error, *values = getattr(self._cuda, name)(*arguments)
        if error != self._cuda.cudaError_t.cudaSuccess:
            _, text = self._cuda.cudaGetErrorString(error)
            raise ModelError(f"The GPU failed: {name}: {text.decode()}.")
        return values[0] if len(values) == 1 else tuple(values)


class Buffer:
    """An array on the GPU, zero at first."""

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dtype: np.dtype):
        self._gpu, self.shape, self._dtype = gpu, shape, dtype
        try:
            self.value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype, "cuda", 0)
        except Exception as error:  # the runtime's own errors have no common base but this
            megabytes = prod(shape) * dtype.itemsize / 1e6
            raise ModelError(f"The GPU has no room for {megabytes:.0f} MB more ({error}).") from error
        self._host: np.ndarray | None = None
        self.write(np.zeros(shape, dtype))
        gpu.wait()

    def write(self, values) -> None:
        """Put values at the front, after what was launched before."""
        values = np.ascontiguousarray(values, self._dtype)
        self._gpu.copy(self.value.data_ptr(), values.ctypes.data, values.nbytes)

    def read(self, count: int | None = None) -> np.ndarray:
        """A view of the first `count` elements (all if left out) on the host, there after the stream's `wait`."""
        if self._host is None:
            self._host = self._gpu.pinned(self.shape, self._dtype).reshape(-1)
        view = self._host[:count]
        self._gpu.copy(view.ctypes.data, self.value.data_ptr(), view.nbytes)
        return view


def bound(network: onnxruntime.InferenceSession, inputs: Mapping, outputs: Mapping) -> onnxruntime.IOBinding:
    """A network's inputs and outputs tied to buffers, and inputs to arrays of the host."""
    binding = network.io_binding()
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            binding.bind_cpu_input(name, value)
        else:
            binding.bind_ortvalue_input(name, value.value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value.value)
    return binding


def check() -> None:
    """Raises ModelError, with what to do, if there is no GPU that can be used, or a library is missing."""
    _runtime()


def describe() -> str:
    """The first GPU, its memory, the driver's and the libraries' versions. Raises ModelError as `check` does."""
    cuda = _runtime()
    _, found = cuda.cudaGetDeviceProperties(0)
    (_, free, total), (_, driver), (_, runtime) = (
        cuda.cudaMemGetInfo(), cuda.cudaDriverGetVersion(), cuda.cudaRuntimeGetVersion(),
    )  # fmt: skip
    versions = " / ".join(f"{version // 1000}.{version % 1000 // 10}" for version in (driver, runtime))
    return (
        f"{found.name.decode()}, compute capability {found.major}.{found.minor}, {free / 2**30:.0f} of "
        f"{total / 2**30:.0f} GiB free, CUDA of the driver / runtime {versions}, ONNX Runtime {onnxruntime.__version__}"
    )


def _runtime():
    """CUDA's runtime."""
    if _PROVIDER not in onnxruntime.get_available_providers():
        raise ModelError(
            "This ONNX Runtime runs on the CPU alone: use --engine cpu, or install the one for GPUs in its place as "
            "docs/gpu.md says."
        )
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise ModelError(f"CUDA's bindings cannot be loaded ({error}): pip install 'voxpath[cuda]'.") from error
    error, devices = runtime.cudaGetDeviceCount()
    if error != runtime.cudaError_t.cudaSuccess or not devices:
        raise ModelError("There is no NVIDIA GPU that CUDA can use; use --engine cpu.")
    if hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # CUDA's libraries and cuDNN, where they are installed as Python packages
    return runtime


def _bytes_at(address: int, size: int):
    import ctypes

    return (ctypes.c_char * size).from_address(int(address))
