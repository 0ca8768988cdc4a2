"""Checks of plain values from strangers: each returns the value, or raises an error that repeats nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

LARGEST = 1 << 63  # of a number

Check: TypeAlias = Callable[[Any], Any]  # returns a value that is allowed, or raises ValueError


def whole(least: int | None = None, most: int | None = None) -> Check:
    """Return a check for a whole number, within limits if there are any."""
    within = "" if least is None else f" from {least} to {most}"

    def checked(value: Any) -> Any:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and (least is None or most is None or least <= value <= most):
            return value
        raise ValueError(f"must be a whole number{within}")

    return checked


def number(value: Any) -> Any:
    """Check for a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
        return value
    raise ValueError("must be a number")


def truth(value: Any) -> Any:
    """Check for true or false."""
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def text(most: int | None = None) -> Check:
    """Return a check for text with at most so many characters; spaces around it are dropped."""

    def checked(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("must be text")
        if most is not None and len(value := value.strip()) > most:
            raise ValueError(f"must have at most {most} characters")
        return value

    return checked


def one_of(*choices: str) -> Check:
    """Return a check for a choice."""

    def checked(value: Any) -> Any:
        if isinstance(value, str) and value in choices:
            return value
        *others, last = map(repr, choices)
        raise ValueError(f"must be {', '.join(others)} or {last}")

    return checked


def list_of(check: Check, most: int) -> Check:
    """Return a check for a list."""

    def checked(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError("must be a list")
        if len(value) > most:
            raise ValueError(f"must have at most {most} items")
        return [check(one) for one in value]

    return checked


def mapping(check: Check, names: Check) -> Check:
    """Return a check for an object, for its values and its names."""

    def checked(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be an object with names and values")
        return {names(name): check(one) for name, one in value.items()}

    return checked


def nothing_or(check: Check) -> Check:
    """Return a check for a value that may be missing."""
    return lambda value: None if value is None else check(value)


def record(fields: Mapping[str, tuple[Check, Any]]) -> Check:
    """Return a check for an object whose fields have a check and a default each; others are ignored."""
    as_mapping = mapping(lambda value: value, lambda name: name)

    def checked(value: Any) -> Any:
        given = as_mapping(value)
        return {
            name: check(given[name]) if name in given else default
            for name, (check, default) in fields.items()
        }

    return checked
