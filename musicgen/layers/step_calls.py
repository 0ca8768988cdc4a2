"""What a generated token is made of: calls that are ready, and what changes under them from token to token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], object]
"""A step of the computation that knows the tensors it reads and the one it writes."""


@dataclass
class Moment:
    """The token that the calls of one sequence compute at present; they read it, the stepper sets it."""

    code: Any  # what the encoding made ready
    position: int
    metre: Any = None  # where it stands in the metre, for metric heads
