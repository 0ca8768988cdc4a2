"""The kernel's instance in a browser: Python runs in Pyodide, and the browser runs the kernel."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import js  # pyright: ignore[reportMissingImports]  Pyodide's modules
import numpy as np
from pyodide.ffi import JsException, to_js  # pyright: ignore[reportMissingImports]

LONG = {"normals": 2}  # the leading parameters of 64 bits, by function


@cache
def _module() -> Any:
    """Return the compiled kernel, which all instances share."""
    code = (files("musicgen.kernel") / "kernel.wasm").read_bytes()
    return js.WebAssembly.Module.new(to_js(code))


def _with_long(arguments: tuple[int | float, ...], long: int) -> Any:
    """Return arguments as a JavaScript array, the first ones as BigInt, into which Pyodide turns no small number."""
    first = to_js(np.array(arguments[:long], "<i8").tobytes()).buffer
    return js.Array.from_(js.BigInt64Array.new(first)).concat(to_js(arguments[long:]))


class Browser:
    """An instance of the kernel in the browser's WebAssembly."""

    def __init__(self) -> None:
        self._exports: Any = js.WebAssembly.Instance.new(_module(), js.Object.new()).exports
        self._functions: dict[str, Any] = {}
        self._see_memory()

    def _see_memory(self) -> None:
        self._bytes: Any = js.Uint8Array.new(self._exports.memory.buffer)
        self.size = int(self._bytes.length)

    def call(self, name: str, *arguments: int | float) -> Any:
        """Call an exported function; without one of this name, return the value of an exported number."""
        if name not in self._functions:
            self._functions[name] = getattr(self._exports, name)
        found = self._functions[name]
        if not callable(found):
            return found.value
        if long := LONG.get(name, 0):
            return js.Reflect.apply(found, None, _with_long(arguments, long))
        return found(*arguments)

    def read(self, address: int, size: int) -> np.ndarray:
        """Return a copy of a part of the memory."""
        found = np.empty(size, np.uint8)
        self._bytes.subarray(address, address + size).assign_to(found)
        return found

    def write(self, address: int, data: np.ndarray) -> None:
        """Write bytes to the memory."""
        self._bytes.subarray(address, address + len(data)).assign(data)

    def grow(self, pages: int) -> bool:
        """Enlarge the memory, and return whether that was possible."""
        try:
            self._exports.memory.grow(pages)
        except JsException:
            return False
        self._see_memory()
        return True

    def end(self) -> None:
        """Free the instance and its memory."""
        self.size, self._bytes, self._exports, self._functions = 0, None, None, {}
