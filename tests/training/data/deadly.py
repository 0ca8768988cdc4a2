"""A reader that one piece kills, apart from the tests: the processes that import it start without torch."""

import os
import signal

from training.data.prepare import Spelled, spell
from training.data.sources.source import Piece, Skipped


def spell_or_die(source: str, spoken: str, piece: Piece) -> Spelled | Skipped:
    """Do as `spell` does, but for the first song."""
    if piece.name == "song0.mid":
        os.kill(os.getpid(), signal.SIGSEGV)
    return spell(source, spoken, piece)
