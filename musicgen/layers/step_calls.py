"""Generating a token as a list of calls made ready once, and the inputs that change from token to token.

Each row of a batch is a sequence of its own, at its own position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], object]
"""A step of the computation that knows the tensors it reads and the one it writes."""


@dataclass
class StepInputs:
    """What the calls read beside the token of each row; `FastSteps` sets it before each step."""

    code: Any  # what the encoding's `cover_rows` made ready
    metre: Any = None  # the place of each row in its bar, for metric heads
