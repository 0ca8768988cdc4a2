"""What has come of a request so far, whoever is at work on it."""

from __future__ import annotations

from threading import Event


class Progress:
    """The new tokens by variation grow in `rows`; `ended` is set once there are no more to come."""

    def __init__(self, variations: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(variations)]
        self.ended = Event()
        self.error: Exception | None = None
        self.bound: Exception | None = None  # why music ends before it was to: what there is stands

    @property
    def steps(self) -> int:
        """How many tokens the longest variation has."""
        return max(map(len, self.rows), default=0)

    def check(self) -> None:
        """Raise what ended the work, or kept it from its length, if that was an error."""
        if (error := self.error or self.bound) is not None:
            raise error
