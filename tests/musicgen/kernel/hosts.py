"""Hosts of WebAssembly other than wasmtime with its defaults, for the kernel."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime

from musicgen.kernel import host


class Node:
    """An instance of the kernel in V8, by way of Node (node.mjs)."""

    def __init__(self) -> None:
        kernel = str(files("musicgen.kernel") / "kernel.wasm")
        command = ["node", str(Path(__file__).with_name("node.mjs")), kernel]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.size = wasmtime_pages() * host.PAGE

    def _ask(self, kind: int, first: int, second: int, data: bytes, answer: int) -> bytes:
        self._in.write(struct.pack("<4I", kind, first, second, len(data)) + data)
        self._in.flush()
        return self._out.read(answer)

    def read(self, address: int, size: int) -> np.ndarray:
        return np.frombuffer(bytearray(self._ask(0, address, size, b"", size)), np.uint8)

    def write(self, address: int, data: np.ndarray) -> None:
        self._ask(1, address, 0, data.tobytes(), 0)

    def grow(self, pages: int) -> bool:
        self._ask(2, pages, 0, b"", 0)
        self.size += pages * host.PAGE
        return True

    def call(self, name: str, *arguments: Any) -> Any:
        values = [str(value) if isinstance(value, int) else value for value in arguments]
        asked = json.dumps({"name": name, "values": values}).encode()
        return struct.unpack("<d", self._ask(3, 0, 0, asked, 8))[0]

    def end(self) -> None:
        self._in.close()
        self._out.close()
        self._process.wait(10)


def wasmtime_pages() -> int:
    """Return the number of pages of memory with which the kernel begins."""
    return host.Wasmtime().size // host.PAGE


@contextmanager
def in_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run new instances of the kernel in Node."""
    made: list[Node] = []

    def new() -> Node:
        made.append(Node())
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(host, "new_machine", new)
        yield
    for one in made:
        one.end()


@contextmanager
def at_level(level: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile new instances of the kernel at another level of optimisation: none, speed or speed_and_size."""
    config = wasmtime.Config()
    config.cranelift_opt_level = level
    engine = wasmtime.Engine(config)
    code = (files("musicgen.kernel") / "kernel.wasm").read_bytes()
    module = wasmtime.Module(engine, code)
    with monkeypatch.context() as patch:
        patch.setattr(host, "_module", lambda: (engine, module))
        yield
