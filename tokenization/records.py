"""Build dataclasses from plain data (the types of JSON and YAML), with an error that names a wrong key or value.

For the reverse, use `dataclasses.asdict`, or the `plain` method of configs that nest others by name.
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
_LONGEST_YAML = 1 << 16  # characters; parsing time grows faster than linearly
_LONGEST_JSON = 1 << 24  # bytes
_MOST_BRACKETS = 500
_MOST_ALIASES = 20  # nested YAML aliases multiply the size of the data
# Errors of the YAML parser on malformed dates and numbers.
_BAD_VALUE = (ValueError, LookupError, AttributeError, TypeError)

_LIKE: dict[Any, Any] = {dict: Mapping, tuple: (list, tuple)}  # type → what it is made from
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def from_yaml(text: str, where: str) -> Any:
    """Parse YAML; `where` names the source in errors."""
    import yaml  # here, because prepared data and models are read without it

    if len(text) > _LONGEST_YAML or text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise ValueError(
            f"{where} is too large for a configuration; "
            f"the limits are {_LONGEST_YAML} characters and {_MOST_BRACKETS} brackets"
        )
    try:
        aliases, data = deepcopy(_parsed(text))  # whoever changes it changes no other's
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply") from None
    except (yaml.YAMLError, *_BAD_VALUE) as error:
        raise ValueError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    if aliases > _MOST_ALIASES:
        raise ValueError(f"{where} has {aliases} aliases; the limit is {_MOST_ALIASES}")
    return data


@lru_cache(maxsize=128)  # parsing is slow, and a command reads its configurations several times
def _parsed(text: str) -> tuple[int, Any]:
    """Return the number of aliases, and the data unless there are too many."""
    import yaml

    aliases = 0
    if "*" in text:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
    return aliases, yaml.safe_load(text) if aliases <= _MOST_ALIASES else None


def yaml_of(path: Path) -> Any:
    """Read a YAML file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no configuration {path}")
    data = _bytes_of(path, 4 * _LONGEST_YAML)
    try:
        return from_yaml(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None


def json_of(path: Path) -> Any:
    """Read a JSON file."""
    return from_json(_bytes_of(path, _LONGEST_JSON), str(path))


def _bytes_of(path: Path, most: int) -> bytes:
    # Reading a pipe could block, and a device could be endless.
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is larger than the limit of {most:,} bytes")
    return data


def from_json(text: bytes | str, where: str) -> Any:
    """Parse JSON; `where` names the source in errors."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({error})") from None


def from_plain(cls: type[Record], data: Any, where: str) -> Record:
    """Build a dataclass from a mapping of its fields; `where` names the source in errors."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r}; it must be a mapping of names to values")
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
    """Return a plain value as an annotated type; raise ValueError if it does not fit."""
    if hint is Any:
        return value
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _first_of(typing.get_args(hint), value, where)
    if hint is type(None):
        if value is None:
            return None
        raise ValueError(f"{where} is {value!r}; it must be empty (null)")
    if typing.get_origin(hint) is tuple and isinstance(value, list | tuple):
        element = typing.get_args(hint)[0]
        return tuple(value_of(element, v, f"{where}[{i}]") for i, v in enumerate(value))
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return value if isinstance(value, hint) else from_plain(hint, value, where)
    if hint in _NAMES:
        return _scalar(hint, value, where)
    expected = typing.get_origin(hint) or hint
    if isinstance(expected, type) and not isinstance(value, expected):
        raise ValueError(f"{where} is {value!r}; it must be {_words(expected)}")
    if expected is dict and (arguments := typing.get_args(hint)):
        return {key: value_of(arguments[1], one, f"{where}: {key}") for key, one in value.items()}
    return value


def check_fields(record: Any, *counted: str) -> None:
    """Raise ValueError if a field is not one of its `Literal` choices, or a `counted` field is below 1."""
    for name, hint in typing.get_type_hints(type(record)).items():
        value, choices = getattr(record, name), typing.get_args(hint)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    for name in counted:
        value = getattr(record, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")


def whole_number(value: Any, where: str) -> int:
    """Return a whole number of any type, including NumPy's, as an int."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ValueError(f"{where} is {value!r}; it must be {_NAMES[int]}")


def suggestion(key: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the most similar known name, and all names."""
    names = sorted(known)
    verb = "are" if len(names) > 1 else "is"
    return f"{nearest(key, names)}; there {verb} {', '.join(names) or 'none'}"


def nearest(key: str, known: Iterable[str], most: int = 1) -> str:
    """Return a question that suggests up to `most` similar known names, or an empty string."""
    near = get_close_matches(str(key), sorted(known), n=most)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def _first_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in hints:
        return None
    hints, failures = tuple(h for h in hints if h is not type(None)), []
    for hint in hints:
        try:
            return value_of(hint, value, where)
        except ValueError as error:
            kind = typing.get_origin(hint) or hint
            if len(hints) == 1 or (kind in _LIKE and isinstance(value, _LIKE[kind])):
                failures.append(error)
    if failures:  # of the kind that the value is
        raise failures[0]
    kinds = [_words(typing.get_origin(hint) or hint) for hint in hints]
    raise ValueError(f"{where} is {value!r}; it must be {', '.join(kinds[:-1])} or {kinds[-1]}")


def _words(kind: Any) -> str:
    """Describe a type to users."""
    others = {dict: "a mapping of names to values", list: "a list", tuple: "a list"}
    return _NAMES.get(kind) or others.get(kind) or f"a {getattr(kind, '__name__', kind)}"


def _scalar(hint: type, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, str):
        with suppress(ValueError):
            value = float(value)  # YAML 1.1 reads 1e-4 as text
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{where} is too large for a number") from None
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where} is {value}; it must be finite")
        return value
    raise ValueError(f"{where} is {value!r}; it must be {_NAMES[hint]}")
