"""Read pickles of plain data safely.

A pickle is a program that can import and call anything. Here it can only build containers, numbers and strings; numpy's
numbers, which event files contain, become Python's by way of harmless stand-ins.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

MOST_BYTES = 1 << 26  # a hundred times the events of a long song
_NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")  # numpy's names
# What the standard library's unpickler can raise on damaged data.
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class RestrictedPickleError(ValueError):
    """A pickle is damaged, or holds more than plain data."""


def read_pickle(path: Path) -> Any:
    """Return the plain data in a pickle; raises RestrictedPickleError for anything else."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise RestrictedPickleError(
            f"{path} has {size / 1e6:.0f} MB; the limit for pickles is {MOST_BYTES / 1e6:.0f} MB"
        )
    try:
        return _Reader(io.BytesIO(path.read_bytes())).load()
    except RestrictedPickleError as error:
        raise RestrictedPickleError(f"{path} {error}") from None
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise RestrictedPickleError(f"{path} is not a readable pickle ({reason})") from None


class _StandIn:
    """Replaces a function or class that a pickle imports; it has no attributes that the pickle could set."""

    __slots__ = ()


class _Codec(_StandIn):
    """Replaces `_codecs.encode`, with which old protocols write bytes."""

    def __call__(self, text: str, codec: str = "latin1") -> bytes:
        if codec != "latin1":
            raise RestrictedPickleError(f"uses the codec {codec!r}; only latin1 is allowed")
        return text.encode("latin1")


class _NumberType:
    """Replaces an instance of `numpy.dtype` for numbers."""

    __slots__ = ("_type",)

    def __init__(self, name: str) -> None:
        if name not in _NUMBERS:
            raise RestrictedPickleError(f"holds numpy data of the type {name!r}, not numbers")
        self._type = np.dtype(f"<{name}")

    def __setstate__(self, state: tuple) -> None:
        self._type = self._type.newbyteorder(">" if state[1] == ">" else "<")

    def number(self, data: bytes) -> int | float | bool:
        return np.frombuffer(data, self._type)[0].item()


class _MakeNumberType(_StandIn):
    def __call__(self, name: str, align: object = False, copy: object = False) -> _NumberType:
        return _NumberType(name)


class _MakeNumber(_StandIn):
    """Replaces numpy's `scalar`."""

    def __call__(self, kind: _NumberType, data: bytes) -> int | float | bool:
        if not isinstance(kind, _NumberType):
            raise RestrictedPickleError("holds a number without a type")
        return kind.number(data)


class _Reader(pickle.Unpickler):
    """Allows only the imports that plain data needs."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "builtins" | "__builtin__", "set":
                return set
            case "builtins" | "__builtin__", "frozenset":
                return frozenset
            case "collections", "OrderedDict":
                return dict
            case "_codecs", "encode":
                return _Codec()
            case "numpy", "dtype":
                return _MakeNumberType()
            case "numpy.core.multiarray" | "numpy._core.multiarray", "scalar":
                return _MakeNumber()
        raise RestrictedPickleError(
            f"imports {module}.{name}; only containers, numbers and strings are read, since other "
            "pickles can run any code"
        )
