"""Completing a piece: bars that are rewritten, and parts that are written to the others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from musicgen.continuation import MusicGeneration, Player, Take
from musicgen.critic import NewBars
from musicgen.generation.request import Order, Request
from musicgen.pieces import Piece, edit_of, in_keys_of, input_facts
from tokenization.analysis.chords import like_given, with_locked
from tokenization.analysis.metres import bar_lines
from tokenization.edit import NewMusic
from tokenization.language import Goal, Language, Wanted
from tokenization.midi.instruments import instrument_name
from tokenization.records import whole_number
from tokenization.score import Marker, Score, Track
from tokenization.wording import listed

EQUALS_OLD = "The new bars of a take equal the old ones: try another seed, or recall 0."


class Completion(MusicGeneration):
    """The generation that completes a piece."""

    def __init__(
        self,
        model: Player,
        piece: Piece,
        goal: Goal,
        request: Request,
        written: dict[str, Any],
        where: NewMusic,
        bars: tuple[int, int],
    ) -> None:
        """Begin without tokens; the goal is for the piece in the model's language, and `bars` are [start, stop).

        `written` records in files what was requested; `where` says which notes of the whole piece count as new, even if
        they equal those that were replaced.
        """
        if goal.tracks != ():  # not chords alone
            self.compared = NewBars(
                begun=bars[0], stop=bars[1], bars=piece.bars, tracks=goal.tracks,
                before=piece.score if len(goal.replaced) else None,
            )  # fmt: skip
        asked = Order(
            request=request, ids=goal.prompt, grammar=goal.grammar, sources=goal.sources,
            elsewhere=tuple(goal.elsewhere.tolist()), unlike=tuple(goal.replaced.tolist()),
        )  # fmt: skip
        self.hear = partial(
            _heard, language=model.language, whole=goal.whole, setting=goal.setting(piece.encoded.setting),
            extent=piece.extent, where=where,
        )  # fmt: skip
        super().__init__(model, asked)
        self.piece, self.goal, self._written, self._where = piece, goal, written, where
        changes = {**vars(where), "over_chords": goal.writes_chords}
        self._edit = edit_of(piece.original, piece.score, model.language, **changes)

    def _take(self, number: int, ids: np.ndarray, score: Score) -> Take:
        if self.compared is not None and self.compared.are_old(score):
            score = score.remark(EQUALS_OLD)
        score = self._played(self.piece.playing, score, self._where, number)
        # Chords are those of the piece, unless they are a part to write.
        markers = like_given(score.markers, self.piece.score.markers)
        if self.goal.writes_chords:
            markers = tuple(
                Marker(one.onset_ticks, one.text) if self._where.holds(one.onset_ticks) else one
                for one in markers
            )
            if self.request.keeps_chords:
                markers = with_locked(markers, self.piece.score.markers)
        score = in_keys_of(score.replace(markers=markers), self.piece.score)
        about = {
            "piece": self.piece.name,
            **input_facts(self.piece.encoded.ids, self.piece.tracks),
            **self._written,
        }
        return self._made(number, ids, score, self._where.new_in(score), self._edit, about)


def _heard(
    ids: np.ndarray, language: Language, whole: Callable[[np.ndarray], np.ndarray], setting: Any,
    extent: tuple[float, float], where: NewMusic,
) -> Score:  # fmt: skip
    """Return a completion as a piece, without new notes before a pickup, or after the end of a short last bar."""
    score = language.decode(whole(ids), setting)
    notes = score.notes
    inside = (notes.onset_ticks >= extent[0]) & (notes.onset_ticks < extent[1])
    return score.replace(notes=notes[inside | ~where.is_new(notes)])


def infilling(
    model: Player,
    piece: Piece,
    bars: tuple[int, int],
    request: Request,
    parts: Collection[int | str] | None = None,
    *,
    differs: bool = True,
) -> Completion:
    """Return the generation that rewrites the bars from the first to the last, counted from 1.

    `parts`: those to write there, as `Language.parts_named` takes them; None for all. `differs`: whether the new bars
    return to no passage with the notes of the old ones.
    """
    try:
        first, last = bars
    except (TypeError, ValueError):
        raise ValueError(
            f"bars is {bars!r}; give the first and the last bar, such as (5, 8)"
        ) from None
    first, last = (whole_number(bar, "a bar to rewrite") for bar in (first, last))
    if parts is None and _has_chords(piece, first, last):
        parts = range(len(piece.score.tracks))  # all but the chords, which stay
    write = None if parts is None else _parts(model, piece, parts)
    plan = _plan(model, request, piece.bars, first - 1, last)
    how: dict[str, Any] = {"plan": plan, "free": request.free, "differs": differs}
    goal = model.language.infilling(piece.encoded.ids, first - 1, last, write=write, **how)
    line, seam = bar_lines(piece.score, last)[[first - 1, last]]
    where = NewMusic(start=int(line), stop=int(seam), tracks=goal.tracks)
    written = {"written_bars": [first, last], **({} if parts is None else _told(parts))}
    return Completion(model, piece, goal, request, written, where, (first - 1, last))


def _has_chords(piece: Piece, first: int, last: int) -> bool:
    """Return whether chords of some bars are given, not guessed."""
    if not 1 <= first <= last <= piece.bars:
        return False
    start, stop = bar_lines(piece.score, last)[[first - 1, last]]
    markers = piece.score.markers
    return any(start <= one.onset_ticks < stop and not one.is_guess for one in markers)


def _parts(model: Player, piece: Piece, names: Collection[int | str]) -> list[Wanted]:
    return model.language.parts_named(piece.score.tracks, names)


def _told(parts: Collection[int | str]) -> dict[str, Any]:
    """Return the provenance of parts."""
    return {"written_parts": [one if isinstance(one, str) else int(one) for one in parts]}


def _plan(
    model: Player, request: Request, bars: int, first: int, stop: int
) -> dict[str, np.ndarray] | None:
    """Return the plan of a piece, with the request's levels in the bars first … stop − 1 and free bars elsewhere."""
    if not request.plan or first >= stop or stop > bars:
        return None
    plan = {}
    for name, level in model.language.plan(request.plan, stop - first).items():
        plan[name] = np.full(bars, -1)
        plan[name][first:stop] = level
    return plan


def _check_chords(score: Score, *, keeps: bool) -> None:
    """Raise ValueError if no chords can be written."""
    if not len(score.pitched):
        raise ValueError("there are only drums, which have no chords")
    if keeps and score.markers and not any(one.is_guess for one in score.markers):
        raise ValueError("all chords are given, and are kept: unlock those that are to be replaced")


def _check_others(model: Player, piece: Piece, wanted: Collection[Wanted]) -> None:
    """Raise ValueError if all tracks would be replaced, so that none is left to accompany."""
    tracks = piece.score.tracks
    if not tracks or not {*range(len(tracks))} <= {*wanted}:
        return
    parts = [tracks[one] if isinstance(one, int) else one for one in wanted]
    named = listed([one if isinstance(one, str) else _name(one) for one in parts])
    example = model.language.part_names(piece.encoded.ids)[0]
    raise ValueError(
        f"the piece has no other part that {named} could accompany: +{example} adds a part instead of replacing "
        f"{_name(tracks[0])}"
    )


def _name(track: Track) -> str:
    return track.name.strip() or instrument_name(track)


def accompaniment(
    model: Player, piece: Piece, write: Collection[int | str], request: Request
) -> Completion:
    """Return the generation that writes some parts, as `Language.parts_named` takes them, to the others."""
    plan = _plan(model, request, piece.bars, 0, piece.bars)
    wanted = _parts(model, piece, write)
    _check_others(model, piece, wanted)
    if [*write] == ["chords"]:
        _check_chords(piece.score, keeps=request.keeps_chords)
    goal = model.language.accompanying(piece.encoded.ids, wanted, plan=plan, free=request.free)
    where = NewMusic(tracks=goal.tracks or ())
    return Completion(model, piece, goal, request, _told(write), where, (0, piece.bars))


def harmonising_part(piece: Piece) -> str:
    """Return the part that plays chords to a melody: a piano, or a guitar if the piece already has a piano."""
    pianos = range(8)  # MIDI programs
    tracks = (track for track in piece.score.tracks if not track.is_drum)
    has_piano = any(track.program in pianos for track in tracks)
    return "+nylon guitar" if has_piano else "+piano"
