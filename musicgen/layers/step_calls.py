"""What a generated token is made of: calls that are ready, and what changes under them from token to token.

Each row of a batch goes on with a sequence of its own, at a place of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], object]
"""A step of the computation that knows the tensors it reads and the one it writes."""


@dataclass
class Moment:
    """The token a row that the calls compute at present; they read it, the stepper sets it."""

    code: Any  # what the encoding's `cover_rows` made ready
    metre: Any = None  # where it stands in the metre, for metric heads
