"""Projects of music programs as plain data, for the tests of the bridges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Row = tuple[float, float, int, int]  # quarter note, length, pitch, velocity


@dataclass(frozen=True)
class Project:
    """Tracks of notes in quarters; metres and tempos by the bar, from 0, at which they begin."""

    tracks: Mapping[str, Sequence[Row]]
    bars: int = 8
    metres: Mapping[int, tuple[int, int]] = field(default_factory=lambda: {0: (4, 4)})
    tempos: Mapping[int, float] = field(default_factory=lambda: {0: 120})
    on_drums: Sequence[str] = ()  # tracks on channel 10
    audio: Sequence[str] = ()  # tracks of audio

    def metre(self, bar: int) -> tuple[int, int]:
        """Return the metre of a bar."""
        return self.metres[max(one for one in self.metres if one <= bar)]

    def tempo(self, bar: int) -> float:
        """Return the tempo of a bar."""
        return self.tempos[max(one for one in self.tempos if one <= bar)]

    def line(self, bar: int) -> float:
        """Return the quarter at which a bar begins."""
        return sum(4 * top / low for top, low in map(self.metre, range(bar)))

    @property
    def quarters(self) -> float:
        """The length in quarters."""
        return self.line(self.bars)
