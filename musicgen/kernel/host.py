"""The kernel's instance, and the sharing out of its memory.

Everything that the kernel works on lies in its memory, in spans that Python allocates. A span is freed with the object
that holds it. Memory is only read and written in pieces, so that it can belong to another host of WebAssembly, such as
a browser (`Machine`, browser.py); here that is wasmtime.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import Any, Protocol
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike

PAGE = 1 << 16
ALIGNED = 16
POOLED = (
    1 << 18
)  # bytes; smaller spans are rounded up to powers of two, to be used again for others
EXPORTS = (
    "advance", "draw", "recall", "normals", "exponentials", "logarithms", "move", "clear", "model_at", "__heap_base",
)  # fmt: skip
GROWTH = 1 << 22  # bytes by which the memory grows at least


class KernelError(ValueError):
    """The kernel cannot run here, or not with what was asked of it."""


class Machine(Protocol):
    """An instance of the kernel in some host of WebAssembly."""

    size: int  # of its memory, in bytes

    def call(self, name: str, *arguments: int | float) -> Any:
        """Call an exported function; without one of this name, return the value of an exported number."""
        ...

    def read(self, address: int, size: int) -> np.ndarray:
        """Return a copy of a part of the memory."""
        ...

    def write(self, address: int, data: np.ndarray) -> None:
        """Write bytes to the memory."""
        ...

    def grow(self, pages: int) -> bool:
        """Enlarge the memory, and return whether that was possible."""
        ...

    def end(self) -> None:
        """Free the memory; its size is then 0."""
        ...


@cache
def _module() -> tuple[Any, Any]:
    """Return wasmtime's engine and the compiled kernel, which all instances share."""
    try:
        import wasmtime
    except (ImportError, OSError, RuntimeError) as error:  # as it imports where it has no library
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


class Wasmtime:
    """An instance of the kernel in this process."""

    def __init__(self) -> None:
        engine, module = _module()
        import wasmtime

        self._store: Any = wasmtime.Store(engine)
        try:
            self._exports: Any = wasmtime.Instance(self._store, module, []).exports(self._store)
            self._memory: Any = self._exports["memory"]
            lacks = [name for name in EXPORTS if self._exports.get(name) is None]
        except (wasmtime.WasmtimeError, KeyError) as error:
            lacks = [str(error)]
        if lacks:
            raise KernelError(
                f"musicgen/kernel/kernel.wasm is not the kernel of this version (it lacks {lacks[0]}): "
                "install musicgen again"
            )
        self._see_memory()

    def _see_memory(self) -> None:
        self.size = self._memory.data_len(self._store)
        self._bytes = np.frombuffer(self._memory.get_buffer_ptr(self._store, self.size), np.uint8)

    def call(self, name: str, *arguments: int | float) -> Any:
        """Call an exported function; without one of this name, return the value of an exported number."""
        found = self._exports[name]
        if callable(found):
            return found(self._store, *arguments)
        return found.value(self._store)

    def read(self, address: int, size: int) -> np.ndarray:
        """Return a copy of a part of the memory."""
        return self._bytes[address : address + size].copy()

    def write(self, address: int, data: np.ndarray) -> None:
        """Write bytes to the memory."""
        self._bytes[address : address + len(data)] = data

    def grow(self, pages: int) -> bool:
        """Enlarge the memory, and return whether that was possible."""
        import wasmtime

        try:
            self._memory.grow(self._store, pages)
        except wasmtime.WasmtimeError:
            return False
        self._see_memory()
        return True

    def end(self) -> None:
        """Free the instance and its memory."""
        self.size, self._bytes = 0, np.zeros(0, np.uint8)
        self._exports = self._memory = self._store = None


class Span:
    """A part of the kernel's memory."""

    __slots__ = ("address", "kernel", "size")

    def __init__(self, kernel: Kernel, address: int, size: int) -> None:
        self.kernel, self.address, self.size = kernel, address, size

    def read(self, dtype: DTypeLike, count: int, start: int = 0) -> np.ndarray:
        """Return a copy of `count` elements from the element `start` on."""
        size = np.dtype(dtype).itemsize
        found = self.kernel.machine.read(self.address + start * size, count * size)
        return found.view(dtype)

    def write(self, array: np.ndarray, at: int = 0) -> None:
        """Write an array from the byte `at` on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.kernel.machine.write(self.address + at, data)

    def copy(self) -> Span:
        """Return a span with the same content."""
        other = self.kernel.take(self.size)
        self.kernel.call("move", other.address, self.address, self.size)
        return other

    def __del__(self) -> None:
        self.kernel.give_back(self.address, self.size)


class Kernel:
    """An instance of the kernel, with its memory shared out; one thread may use it at a time."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or new_machine()
        self.call = self.machine.call
        self.model_at = int(self.call("model_at"))
        self._end = -(-int(self.call("__heap_base")) // ALIGNED) * ALIGNED  # of what is shared out
        self._free: dict[int, list[int]] = defaultdict(list)  # addresses by size
        self._lock = threading.Lock()
        # Of objects that refer to each other, Python may free the kernel before a state that gives back a part of it;
        # so the instance outlives the kernel, and knows that it has no memory any more. Also at the end of the program.
        finalize(self, self.machine.end)

    def take(self, size: int) -> Span:
        """Return a span of at least this size, with any content."""
        size = max(size, ALIGNED)
        size = 1 << (size - 1).bit_length() if size <= POOLED else -(-size // ALIGNED) * ALIGNED
        with self._lock:
            if free := self._free[size]:
                return Span(self, free.pop(), size)
            address = self._end
            if address + size > self.machine.size:
                self._grow(address + size - self.machine.size)
            self._end = address + size
        return Span(self, address, size)

    def place(self, array: np.ndarray) -> Span:
        """Return a span that holds a copy of an array."""
        span = self.take(array.nbytes)
        span.write(array)
        return span

    def give_back(self, address: int, size: int) -> None:
        """Keep a span for another use."""
        self._free[size].append(address)

    def _grow(self, size: int) -> None:
        pages, least = (-(-wanted // PAGE) for wanted in (max(size, GROWTH), size))
        if not self.machine.grow(pages) and not self.machine.grow(least):
            raise KernelError(
                f"there is no memory for another {size:,} bytes besides the {self.machine.size:,} of the music that is "
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
        return span.read(np.float64, x.size).reshape(x.shape)


def new_machine() -> Machine:
    """Return a new instance of the kernel, in the host of WebAssembly that there is."""
    if sys.platform == "emscripten":
        from musicgen.kernel.browser import Browser

        return Browser()
    return Wasmtime()


@cache
def tools() -> Kernel:
    """Return the kernel that serves recall and draws of models that torch computes, one for each process."""
    return Kernel()


atexit.register(_module.cache_clear)  # after all instances, while the interpreter is whole
