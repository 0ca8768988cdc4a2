"""How many requests the server takes at a time, of all visitors together."""

from __future__ import annotations

IN_LINE = 64  # requests that wait; more are told to come later
TOGETHER = 48  # requests at work, in turns; the others wait
THREADS = 2 * TOGETHER
