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
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike

PAGE = 1 << 16
LARGEST = 1 << 32  # bytes that an address can name
ALIGNED = 16
POOLED = 1 << 18  # bytes; smaller spans are rounded up to powers of two, to be used for others
GROWTH = 1 << 22  # bytes by which the memory grows at least


class KernelError(ValueError):
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


class _Instance:
    """What wasmtime holds of a kernel, until the kernel is freed.

    The kernel does not free it by itself: of objects that refer to each other, Python may free the memory before a
    state that gives back a part of it.
    """

    def __init__(self) -> None:
        engine, module = _module()
        import wasmtime

        self.store: Any = wasmtime.Store(engine)
        try:
            exports: Any = wasmtime.Instance(self.store, module, []).exports(self.store)
            self.exports: dict[str, Any] = {
                name: exports[name]
                for name in ("advance", "draw", "recall", "normals", "exponentials", "logarithms")
            }
            self._memory: Any = exports["memory"]
            self.model_at = int(exports["model_at"](self.store))
            self.heap = int(exports["__heap_base"].value(self.store))
        except (wasmtime.WasmtimeError, KeyError, TypeError, AttributeError) as error:
            raise KernelError(
                f"musicgen/kernel/kernel.wasm is not the kernel of this version ({error!r}): "
                "install musicgen again"
            ) from None
        self.see_memory()

    def see_memory(self) -> None:
        buffer = self._memory.get_buffer_ptr(self.store, self._memory.data_len(self.store))
        self.memory = np.frombuffer(buffer, np.uint8)

    def grow(self, pages: int) -> None:
        self._memory.grow(self.store, pages)
        self.see_memory()

    def end(self) -> None:
        self.memory = np.zeros(0, np.uint8)
        self.exports, self._memory, self.store = {}, None, None


class Kernel:
    """An instance of the kernel; one thread may use it at a time."""

    def __init__(self) -> None:
        self._instance = _Instance()
        self.model_at = self._instance.model_at
        # Of the memory that has been shared out:
        self._end = -(-self._instance.heap // ALIGNED) * ALIGNED
        self._free: dict[int, list[int]] = defaultdict(list)  # addresses by size
        self._lock = threading.Lock()
        finalize(self, self._instance.end)  # also at the end of the program

    @property
    def memory(self) -> np.ndarray:
        """The memory, until it grows; empty once the kernel is being freed."""
        return self._instance.memory

    def call(self, name: str, *arguments: int | float) -> None:
        """Call a function of the kernel."""
        instance = self._instance
        instance.exports[name](instance.store, *arguments)

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
                return self._instance.grow(-(-wanted // PAGE))
            except wasmtime.WasmtimeError:
                continue
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


atexit.register(_module.cache_clear)  # after all kernels, while the interpreter is whole
