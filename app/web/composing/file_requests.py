"""Requests for music in a file, as other programs state them: what to do, in which bars of the file.

The options are those of the page's requests (requests.py), but for bars, which are counted as in the file, and parts,
whose numbers are those of the file's tracks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.web.composing.checks import Check, one_of
from app.web.composing.opened_files import with_leading_rest
from app.web.composing.requests import PLAIN, MusicRequest, request_from
from musicgen.completion import harmonising_part
from musicgen.generation.sampling import CONTROLS
from musicgen.pieces import Piece
from tokenization.analysis.beats import interpolate
from tokenization.analysis.metres import bar_lines, file_bar_lines
from tokenization.score import Score

ACTIONS = ("continue", "end", "rewrite", "accompany", "harmonise")
RESULTS = ("whole", "new")
LEVELS = ("density", "register", "loudness")
SAMPLING = (*CONTROLS, "seed")
# The fields of the page's requests that are options here, by their names.
SAME = sorted({*PLAIN} & {"model", "form", "chords", "ends", "variations", "draw"})
OPTIONS = ("do", "bars", "parts", "result", *SAME, *LEVELS, *SAMPLING)
NEW_BARS, LAST_BARS = 8, 4  # written without `bars`: by continue, and by end
RANGE = re.compile(r"\s*(\d{1,4})(?:\s*[-–]\s*(\d{1,4}))?\s*")
NEAR = 8  # a bar of the piece begins with one of the file if it is within this part of a beat


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request for music in a file."""

    piece: Piece  # that of the file, perhaps with more bars of rest at its start
    request: MusicRequest
    bars: int  # to write
    stop: float | None  # the file's tick at which they end; None for the whole piece

    def until(self, score: Score) -> int:
        """Return the tick of a score of the piece at which the bars end; the model may write longer ones."""
        last = self.request.prompt_bars or 0
        last = last + self.bars if self.request.kind == "continue" else self.request.last
        tick = int(bar_lines(score, last)[-1])
        if self.stop is None:
            return tick
        beats, known = self.piece.score.file_times.columns
        beat = float(interpolate(np.array(self.stop), known, beats))
        return min(tick, round(beat * score.ticks_per_beat))


def check(options: Mapping[str, Any]) -> None:
    """Raise ValueError unless all names are known, and what to do and to return are possible."""
    if not {*options} <= {*OPTIONS}:
        raise ValueError(f"an option has an unknown name; there are {', '.join(OPTIONS)}")
    _checked(options, "do", one_of(*ACTIONS), ACTIONS[0])
    _checked(options, "result", one_of(*RESULTS), RESULTS[0])


def _checked(options: Mapping[str, Any], name: str, check: Check, default: Any) -> Any:
    try:
        return check(options.get(name, default))
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def asked(options: Mapping[str, Any], piece: Piece, file: Score) -> Asked:
    """Return the request that some options make for a piece and the score of its file."""
    do, bars = options.get("do", ACTIONS[0]), _bars(options.get("bars"))
    parts = _parts(options.get("parts"))
    if do in ("continue", "end"):
        if parts:
            raise ValueError(
                f"parts are not possible: {do} writes all; choose accompany or rewrite"
            )
        ends = do == "end" or bool(options.get("ends"))
        if not isinstance(bars, tuple):
            count, before = bars or (LAST_BARS if do == "end" else NEW_BARS), _bars_of(piece, file)
            bars = before + 1, before + count
        return _continued(options, *in_piece(piece, file, *bars), ends)
    if do == "harmonise":
        parts = parts or [harmonising_part(piece)]
    if do == "accompany" and not parts:
        raise ValueError("parts are missing: name those to write, such as bass")
    if bars is None:
        if do == "rewrite":
            raise ValueError("bars are missing: name the first and the last to write, such as 9-12")
        return _made(options, piece, 1, piece.bars, None, kind="accompany", parts=parts)
    both = bars if isinstance(bars, tuple) else (bars, bars)
    piece, first, last, stop = in_piece(piece, file, *both)
    if last > piece.bars and not parts:
        return _continued(options, piece, first, last, stop, bool(options.get("ends")))
    if parts and first <= piece.bars:
        last = min(last, piece.bars)  # of what is accompanied
    return _made(options, piece, first, last, stop, kind="infill", parts=parts)


def _continued(
    options: Mapping[str, Any], piece: Piece, first: int, last: int, stop: float, ends: bool
) -> Asked:
    if first == 1:
        raise ValueError("there are no notes before these bars; choose later ones")
    if (gap := first - 1 - piece.bars) > 0:
        raise ValueError(f"these bars begin {gap} after the last with notes; begin right after it")
    return _made(options, piece, first, last, stop, promptBars=first - 1, ends=ends)


def _made(
    options: Mapping[str, Any],
    piece: Piece,
    first: int,
    last: int,
    stop: float | None,
    **fields: Any,
) -> Asked:
    """Return the request in the words of the page."""
    bars = last - first + 1
    plain = {
        "variations": 1,
        "bars": bars,
        "sampling": {name: options[name] for name in SAMPLING if name in options},
        "plan": {name: options[name] for name in LEVELS if name in options} or None,
        **{name: options[name] for name in SAME if name in options},
        **{"first": first, "last": last, **fields},
    }
    if fields.get("kind") == "accompany":
        plain["bars"] = 1  # those of the piece, which can be more than a continuation may have
    return Asked(piece=piece, request=request_from(plain), bars=bars, stop=stop)


def _bars(given: Any) -> tuple[int, int] | int | None:
    """Return the first and the last bar of the file, counted from 1, or a number."""
    if given is None or given == "":
        return None
    match = RANGE.fullmatch(str(given))
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError("bars must be the first and the last, such as 9-12, or a number")
    return (first, last) if match and match[2] else first


def _parts(given: Any) -> list[Any]:
    """Return parts in the words of the page, where a text of digits is a track of the file."""
    several = (
        given
        if isinstance(given, list)
        else [*filter(None, ("" if given is None else str(given)).split(","))]
    )
    return [str(one) if isinstance(one, int) else one for one in several]


# Bars of the file in the piece as a model reads it: rests at the start are left out, pickups completed, metres split.


def _bars_of(piece: Piece, file: Score) -> int:
    """Return the number of bars of the file until the end of the piece."""
    lines, near = _file_lines(file, 4 * piece.bars)
    return int(np.searchsorted(lines, _lines(piece, 0)[-1] - near, side="left"))


def _file_lines(file: Score, bars: int) -> tuple[np.ndarray, float]:
    """Return the bar lines of a file in its ticks, and the distance within which lines are the same."""
    beats = file_bar_lines(file, bars) / file.ticks_per_beat
    beat = float(np.diff(interpolate(np.array([0.0, 1.0]), *file.file_times.columns))[0])
    return interpolate(beats, *file.file_times.columns), beat / NEAR


def in_piece(piece: Piece, file: Score, first: int, last: int) -> tuple[Piece, int, int, float]:
    """Return the piece, with the rest before it if needed, its bars that are some of the file, and their end there."""
    found, near = _file_lines(file, last)
    begin, end = found[[first - 1, last]].tolist()
    lines = _lines(piece, last)
    if begin < lines[0] - near and end > near:
        missing = (lines[0] - begin - near) / (lines[1] - lines[0])
        piece = with_leading_rest(piece, int(np.ceil(missing)))
        lines = _lines(piece, last)
    start = int(np.searchsorted(lines, begin + near, side="right"))
    stop = int(np.searchsorted(lines, end - near, side="left"))
    return piece, max(start, 1), max(stop, start, 1), end


def _lines(piece: Piece, last: int) -> np.ndarray:
    """Return the bar lines of a piece in ticks of its file, as far as a bar of the file can be."""
    score = piece.score
    at = bar_lines(score, piece.bars + 4 * last) / score.ticks_per_beat
    return interpolate(at, *score.file_times.columns)
