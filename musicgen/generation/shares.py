"""How much of the machine's time each owner of requests had lately: who had least is served first."""

from __future__ import annotations

from collections.abc import Collection


class ServedTime:
    """Seconds by owner, of those who are here and of those who left with more than the others had."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._now: float = 0.0  # what who had least has had: with so much, newcomers begin

    def come(self, owner: str) -> None:
        """Note that somebody is here; who comes has no claim from when they were away."""
        self._had[owner] = max(self._had.get(owner, 0.0), self._now)

    def had(self, owner: str) -> float:
        """Return what somebody had."""
        return self._had.get(owner, 0.0)

    def charge(self, owner: str, seconds: float) -> None:
        """Add to it."""
        self._had[owner] = self.had(owner) + seconds

    def keep(self, here: Collection[str]) -> None:
        """Forget who is not here, and had no more than newcomers are given."""
        if here:
            self._now = max(self._now, min(self.had(one) for one in here))
        self._had = {one: had for one, had in self._had.items() if one in here or had > self._now}
