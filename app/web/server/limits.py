"""How much of the server all can have together."""

from __future__ import annotations

IN_LINE = 64  # requests that wait; more are told to come later
TOGETHER = 48  # requests at work, in turns; the others wait
THREADS = 2 * TOGETHER
