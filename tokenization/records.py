"""Frozen dataclasses from plain data (what JSON and YAML hold): a wrong key or value is named in one sentence.

The other way is `dataclasses.asdict`, or a config's own `plain` where it nests others by name.
"""

from __future__ import annotations

import json
import math
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

Record = TypeVar("Record")
LONGEST_YAML = 1 << 16  # characters; reading takes longer than they grow
LONGEST_JSON = 1 << 24  # bytes of a file that describes a model or a run
MOST_BRACKETS = 500
MOST_ALIASES = 20  # of a YAML file: each may stand for all that was said before
# What a reader of YAML raises of what is said to be a date or a number, and is none.
NO_VALUE = (ValueError, LookupError, AttributeError, TypeError)


_SPOKEN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def from_yaml(text: str, where: str) -> Any:
    """Return what a YAML text says; `where` says in errors what was being read."""
    import yaml  # here, since prepared data and models are read without it

    if len(text) > LONGEST_YAML or text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ValueError(
            f"{where} is not a configuration: up to {LONGEST_YAML} characters and {MOST_BRACKETS} brackets are read"
        )
    try:
        aliases, value = _parsed(text)
    except RecursionError:
        raise ValueError(f"{where} is nested more deeply than anything here is") from None
    except (yaml.YAMLError, *NO_VALUE) as error:
        raise ValueError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if aliases > MOST_ALIASES:
        raise ValueError(f"{where} has {aliases} aliases; {MOST_ALIASES} can be followed")
    return deepcopy(value)  # the reader may change it


# A command reads the shipped configurations, and their bases, again and again.
@lru_cache(maxsize=100)
def _parsed(text: str) -> tuple[int, Any]:
    """Return how many aliases a YAML text has and, unless they are too many, what it says."""
    import yaml

    aliases = 0
    if "*" in text:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
    return aliases, yaml.safe_load(text) if aliases <= MOST_ALIASES else None


def yaml_of(path: Path) -> Any:
    """Return what a YAML file says."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no configuration {path}")
    data = _bytes_of(path, 4 * LONGEST_YAML)
    try:
        return from_yaml(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None


def json_of(path: Path) -> Any:
    """Return what a JSON file says."""
    return from_json(_bytes_of(path, LONGEST_JSON), str(path))


def _bytes_of(path: Path, most: int) -> bytes:
    # A pipe would be waited for, a device be read without end.
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is larger than the {most:,} bytes that such a file can have")
    return data


def from_json(text: bytes | str, where: str) -> Any:
    """Return what a JSON text says; `where` says in errors what was being read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{where} is nested more deeply than anything here is") from None
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({error})") from None


def from_plain(cls: type[Record], data: Any, where: str) -> Record:
    """Build a dataclass from a mapping of its fields; `where` says in errors what was being read."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r}, which is not a mapping of names to values")
    known = {f.name: f for f in fields(typing.cast(Any, cls)) if f.init}
    for key in data:
        if key not in known:
            raise ValueError(f"{where} has an unknown key {key!r}{suggestion(key, known)}")
    hints = typing.get_type_hints(cls)
    values = {key: value_of(hints[key], value, f"{where}: {key}") for key, value in data.items()}
    try:
        return cls(**values)
    except TypeError as error:  # a field without a default is missing
        raise ValueError(f"{where} is incomplete: {error}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def value_of(hint: Any, value: Any, where: str) -> Any:
    """Return a plain value as the annotated type, or say what was found instead."""
    if hint is Any:
        return value
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _first_of(typing.get_args(hint), value, where)
    if hint is type(None):
        if value is None:
            return None
        raise ValueError(f"{where} is {value!r}; empty (null) would work")
    if typing.get_origin(hint) is tuple and isinstance(value, list | tuple):
        element = typing.get_args(hint)[0]
        return tuple(value_of(element, v, f"{where}[{i}]") for i, v in enumerate(value))
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return value if isinstance(value, hint) else from_plain(hint, value, where)
    if hint in _SPOKEN:
        return _scalar(hint, value, where)
    expected = typing.get_origin(hint) or hint
    if isinstance(expected, type) and not isinstance(value, expected):
        raise ValueError(f"{where} is {value!r}, where {expected.__name__} is wanted")
    if expected is dict and (arguments := typing.get_args(hint)):
        return {key: value_of(arguments[1], one, f"{where}: {key}") for key, one in value.items()}
    return value


def check_fields(record: Any, *counted: str) -> None:
    """Refuse a field that is none of what its `Literal` annotation lists, and a `counted` one that is below 1."""
    for name, hint in typing.get_type_hints(type(record)).items():
        value, choices = getattr(record, name), typing.get_args(hint)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    for name in counted:
        value = getattr(record, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")


def whole_number(value: Any, where: str) -> int:
    """Return a whole number of any type, numpy's too, as Python's."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{where} is {value!r}, where {_SPOKEN[int]} is wanted")


def suggestion(key: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the nearest known one, and all of them."""
    names = sorted(known)
    there = f"there {'are' if len(names) > 1 else 'is'} {', '.join(names) or 'none'}"
    return f"{nearest(key, names)}; {there}"


def nearest(key: str, known: Iterable[str], most: int = 1) -> str:
    """Return a question whether a known name was meant, or one of so many, where some are like an unknown one."""
    near = get_close_matches(str(key), sorted(known), n=most)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def _first_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in hints:
        return None
    hints = tuple(h for h in hints if h is not type(None))
    for hint in hints[:-1]:
        try:
            return value_of(hint, value, where)
        except ValueError:
            continue
    return value_of(hints[-1], value, where)


def _scalar(hint: type, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, str):
        with suppress(ValueError):
            value = float(value)  # YAML 1.1 reads 1e-4 as a text
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{where} has more digits than can be computed with") from None
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where} is {value}, where a number is wanted")
        return value
    raise ValueError(f"{where} is {value!r}, where {_SPOKEN[hint]} is wanted")
