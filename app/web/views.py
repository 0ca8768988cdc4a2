"""What the page shows, as plain data: the piece at work, and variations as they grow."""

from __future__ import annotations

from typing import Any

from app.service import Continuation, Take
from app.web.picture import picture, trained_bars
from app.web.server.sessions import Tune
from app.web.similarity import by_quarter
from tokenization.metres import bar_lines


def drawn(work: Continuation, take: Take) -> dict[str, Any]:
    """Return a variation as its roll shows it."""
    bars = work.prompt.bars
    return {
        "number": take.number,
        "new": len(take.continuation.notes),
        **picture(
            take.whole,
            prompt_bars=bars,
            bars=bars + work.wish.bars,
            trained_bars=trained_bars(work.model.language, take.ids, work.model.trained_length),
        ),
    }


def growing(run: str, work: Continuation) -> dict[str, Any]:
    """Return the variations so far, and how far that is."""
    takes = work.takes()
    start = work.prompt.ticks
    bars = work.prompt.bars + work.wish.bars
    length = int(bar_lines(work.prompt.score, bars)[-1]) - start
    far = [max(0, int(take.whole.notes.onset_ticks.max(initial=0)) - start) for take in takes]
    return {
        "run": run,
        "state": "running",
        "progress": round(min(1.0, sum(far) / len(far) / length), 3),
        "takes": [drawn(work, take) for take in takes],
    }


def finished(
    run: str, work: Continuation, kept: list[tuple[Take, Tune]], *, state: str, seconds: float
) -> dict[str, Any]:
    """Return the variations with all there is to them."""
    return {
        "run": run,
        "state": state,
        "progress": 1.0,
        "seconds": round(seconds, 1),
        "takes": [
            {
                **drawn(work, take),
                **(addresses(tune) if len(take.whole.notes) else {}),
                "similarity": by_quarter(work.prompt.score, take.continuation),
                "seed": work.wish.seed,
                "continues": work.prompt.bars > 0,
            }
            for take, tune in kept
        ],
    }


def addresses(tune: Tune) -> dict[str, Any]:
    """Return where a piece can be had."""
    return {
        "midi": f"music/{tune.key}.mid",
        "part": f"music/{tune.key}.part.mid" if tune.part else None,
        "wav": f"music/{tune.key}.wav",
    }
