"""A folder of prompts for the tests of the groove experiment."""

from pathlib import Path

from evaluation.continuation.prompts import Plan
from tests.evaluation.scores import BASS, DRUMS, OTHER, trio
from tests.training.data.sources.on_disk import put
from tokenization.score import Score

PLAN = Plan(tokens=140, samples=2)
STYLES = {"march": (12, 24), "waltz-like": (8, 16)}  # steps between notes of the bass and the other
FILES = ("one.march.mid", "two.march.mid", "one.waltz-like.mid", "deep/two.waltz-like.MIDI")


def piece(style: str, root: int, bars: int = 6) -> Score:
    """Return a trio that plays a style on a root note: about 30 tokens per bar."""
    bass, other = STYLES[style]
    end = 48 * bars
    rows = [(at, bass // 2, root + 7 * (at % 48 > 20), BASS) for at in range(0, end, bass)]
    rows += [(at, 1, 36 if at % 24 else 38, DRUMS) for at in range(0, end, 12)]
    rows += [(at, other - 2, root + 24 + at % 5, OTHER) for at in range(0, end, other)]
    return trio(rows)


def write_pieces(folder: Path) -> Path:
    """Write four pieces in two styles, one of them in a subfolder."""
    for number, name in enumerate(FILES):
        path = folder / name
        put(path, piece(path.stem.partition(".")[2], 36 + number))
    return folder
