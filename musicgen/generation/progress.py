"""What has come of a request so far, whoever is at work on it."""

from __future__ import annotations

from threading import Event


class Progress:
    """The new tokens by variation grow in `rows`; `ended` is set once there are no more to come."""

    def __init__(self, variations: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(variations)]
        self.ended = Event()
        self.error: Exception | None = None

    @property
    def steps(self) -> int:
        """How many tokens the longest variation has."""
        return max(map(len, self.rows))

    def check(self) -> None:
        """Raise what ended the work, if that was an error."""
        if self.error is not None:
            raise self.error
