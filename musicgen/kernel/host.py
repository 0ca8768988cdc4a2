"""Runs the kernel by wasmtime, and shares out its memory.

Everything that the kernel works on lies in its memory, in spans that Python allocates. A span is freed with the object
that holds it.
"""

from __future__ import annotations

import atexit
import threading
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike

PAGE = 1 << 16
LARGEST = 1 << 32  # bytes that an address can name
ALIGNED = 16
POOLED = (
    1 << 18
)  # bytes; smaller spans are rounded up to powers of two, to be used again for others
GROWTH = 1 << 22  # bytes by which the memory grows at least


class KernelError(RuntimeError):
    """The kernel cannot run here, or not with what was asked of it."""


@cache
def _module() -> tuple[Any, Any]:
    """Return wasmtime's engine and the compiled kernel, which all instances share."""
    try:
        import wasmtime
    except ImportError as error:
        raise KernelError(
            f"models are played by wasmtime, which cannot be used on this machine ({error}): "
            "it has wheels for Linux, macOS and Windows on x86-64 and ARM64"
        ) from None
    code = (files("musicgen.kernel") / "kernel.wasm").read_bytes()
    engine = wasmtime.Engine()
    try:
        return engine, wasmtime.Module(engine, code)
    except wasmtime.WasmtimeError as error:
        first = str(error).splitlines()[0]
        raise KernelError(
            f"musicgen/kernel/kernel.wasm is damaged ({first}): install musicgen again"
        ) from None


class Span:
    """A part of the kernel's memory."""

    __slots__ = ("_kernel", "address", "bytes")

    def __init__(self, kernel: Kernel, address: int, size: int) -> None:
        self._kernel, self.address, self.bytes = kernel, address, size

    def view(self, dtype: DTypeLike = np.uint8) -> np.ndarray:
        """Return the span as an array, valid until the memory grows."""
        memory = self._kernel.memory
        return memory[self.address : self.address + self.bytes].view(dtype)

    def __del__(self) -> None:
        self._kernel.give_back(self.address, self.bytes)


class Kernel:
    """An instance of the kernel; one thread may use it at a time."""

    def __init__(self) -> None:
        import wasmtime

        engine, module = _module()
        self._store = wasmtime.Store(engine)
        try:
            exports = wasmtime.Instance(self._store, module, []).exports(self._store)
            self._exports: dict[str, Any] = {
                name: exports[name]
                for name in ("advance", "draw", "recall", "normals", "exponentials", "logarithms")
            }
            self._memory: Any = exports["memory"]
            self.model_at = int(exports["model_at"](self._store))
            heap = exports["__heap_base"].value(self._store)
        except (wasmtime.WasmtimeError, KeyError, TypeError, AttributeError) as error:
            raise KernelError(
                f"musicgen/kernel/kernel.wasm is not the kernel of this version ({error!r}): "
                "install musicgen again"
            ) from None
        self._end = -(-int(heap) // ALIGNED) * ALIGNED  # of the memory that has been shared out
        self._free: dict[int, list[int]] = defaultdict(list)  # addresses by size
        self._lock = threading.Lock()
        self._see_memory()
        _INSTANCES.add(self)

    def end(self) -> None:
        """Free the instance and its memory."""
        self.memory = np.zeros(0, np.uint8)
        self._exports, self._memory, self._store = {}, None, None

    def _see_memory(self) -> None:
        buffer = self._memory.get_buffer_ptr(self._store, self._memory.data_len(self._store))
        self.memory = np.frombuffer(buffer, np.uint8)

    def call(self, name: str, *arguments: int | float) -> None:
        """Call a function of the kernel."""
        self._exports[name](self._store, *arguments)

    def take(self, size: int) -> Span:
        """Return a span of at least this size, with any content."""
        size = max(size, ALIGNED)
        size = 1 << (size - 1).bit_length() if size <= POOLED else -(-size // ALIGNED) * ALIGNED
        with self._lock:
            if free := self._free[size]:
                return Span(self, free.pop(), size)
            address = self._end
            if address + size > len(self.memory):
                self._grow(address + size - len(self.memory))
            self._end = address + size
        return Span(self, address, size)

    def place(self, array: np.ndarray) -> Span:
        """Return a span that holds a copy of an array."""
        array = np.ascontiguousarray(array)
        span = self.take(array.nbytes)
        span.view()[: array.nbytes] = array.reshape(-1).view(np.uint8)
        return span

    def give_back(self, address: int, size: int) -> None:
        """Keep a span for another use."""
        self._free[size].append(address)

    def _grow(self, size: int) -> None:
        import wasmtime

        for wanted in (max(size, GROWTH), size):
            try:
                self._memory.grow(self._store, -(-wanted // PAGE))
            except wasmtime.WasmtimeError:
                continue
            return self._see_memory()
        raise KernelError(
            f"there is no memory for another {size:,} bytes beside the {len(self.memory):,} of the music that is "
            "being written: ask for fewer variations at once"
        )

    def exponentials(self, x: np.ndarray) -> np.ndarray:
        """Return e to the power of numbers, the same bits on every machine."""
        return self._mapped("exponentials", x)

    def logarithms(self, x: np.ndarray) -> np.ndarray:
        """Return natural logarithms of normal positive numbers, the same bits on every machine."""
        return self._mapped("logarithms", x)

    def _mapped(self, name: str, x: np.ndarray) -> np.ndarray:
        span = self.place(np.asarray(x, np.float64))
        self.call(name, span.address, x.size)
        return span.view(np.float64)[: x.size].reshape(x.shape).copy()


@cache
def tools() -> Kernel:
    """Return the kernel that serves recall and draws of models that torch computes, one for each process."""
    return Kernel()


_INSTANCES: WeakSet[Kernel] = WeakSet()


@atexit.register
def _end() -> None:
    """Free what wasmtime holds while the interpreter is whole; spans that are left have no memory any more."""
    for kernel in [*_INSTANCES]:
        kernel.end()
    _module.cache_clear()
