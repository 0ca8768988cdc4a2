"""Any score as one piano part on the grid, with a tempo and chords: what REMI can spell."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE
from tokenization.analysis.chords import named, recognise
from tokenization.analysis.grid import on_four_four, on_own_bars, without_rest_in_front
from tokenization.analysis.parts import find_drums, parts_of
from tokenization.analysis.pedal import sustained
from tokenization.analysis.tracks import find_tracks, label, note_counts
from tokenization.remi.tokens import FASTEST, SLOWEST
from tokenization.score import Score, Tempos, Track
from tokenization.wording import Remark, listed

# From here on General MIDI's programs are struck wood and drums, then sound effects: a pitch of
# theirs is a choice of sound.
FIRST_UNPITCHED_PROGRAM = 115


def arrange(
    score: Score,
    tracks: int | str | Iterable[int | str] | None = None,
    *,
    every_metre: bool = False,
) -> Score:
    """Bring any score to one piano on bars of 4/4, or its own, with chords; its remarks say what was done.

    `tracks` names the tracks to play, by index or name; else all pitched ones are.
    """
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    chosen = _pitched(score) if tracks is None else _named(score, tracks)
    piano = _one_track(sustained(_only(score, chosen)))
    score = on_own_bars(piano) if every_metre else on_four_four(piano)
    return _with_chords(_with_tempo(without_rest_in_front(score)))


def _pitched(score: Score) -> list[int]:
    """Return the tracks that have notes and are neither drums nor sound effects."""
    playing = [index for index, notes in enumerate(note_counts(score)) if notes]
    tracks = [(index, score.tracks[index]) for index in playing]
    pitched = {i for i, t in tracks if not t.is_drum and t.program < FIRST_UNPITCHED_PROGRAM}
    if not pitched:
        raise ValueError(
            f"all {len(score.notes)} notes are played by drums or sound effects; "
            "a piano part takes a pitched track"
        )
    # Drums on another channel are recognised by name or by what they play: not if nothing else is left.
    drums = {index for part in find_drums(parts_of(score))[0] for index in part.tracks}
    return sorted(pitched - drums or pitched)


def _named(score: Score, wanted: int | str | Iterable[int | str]) -> list[int]:
    """Return the tracks of these indices and names."""
    wanted = [wanted] if isinstance(wanted, int | str) else list(wanted)
    chosen = {index for name in wanted for index in find_tracks(score, name)}
    if not sum(note_counts(score)[index] for index in chosen):
        raise ValueError("the chosen tracks hold no notes; choose others, or leave the choice open")
    return sorted(chosen)


def _only(score: Score, chosen: list[int]) -> Score:
    """Return the score with the notes and pedals of the chosen tracks."""
    notes, pedals = score.notes, score.pedals
    counts = note_counts(score)
    played = [label(score, i) for i in chosen if counts[i]]
    left_out = [i for i, n in enumerate(counts) if n and i not in chosen]
    remarks = []
    if len(played) > 1:
        message = f"{len(played)} tracks are played on one piano: {listed(played)}."
        remarks.append(Remark(message, "tracks"))
    if left_out:
        about = "drums" if all(score.tracks[i].is_drum for i in left_out) else "tracks"
        message = f"Left out: {listed([label(score, i) for i in left_out])}."
        remarks.append(Remark(message, about))
    return score.replace(
        notes=notes[np.isin(notes.track, chosen)], pedals=pedals[np.isin(pedals.track, chosen)]
    ).remark(*remarks)


def _one_track(score: Score) -> Score:
    notes = score.notes.replace(track=np.zeros_like(score.notes.track))
    return score.replace(notes=notes.sorted(), tracks=(Track(name="Piano"),))


def _with_tempo(score: Score) -> Score:
    if not len(score.tempos):
        return score.replace(tempos=Tempos(np.array([0]), np.array([DEFAULT_BEATS_PER_MINUTE])))
    tempos = score.tempos.beats_per_minute
    if tempos.min() < SLOWEST - 2 or tempos.max() > FASTEST + 2:
        slowest, fastest = f"{tempos.min():.0f}", f"{tempos.max():.0f}"
        found = f"is {slowest}" if slowest == fastest else f"goes from {slowest} to {fastest}"
        return score.remark(
            f"The tempo {found} beats a minute; what lies outside {SLOWEST} to {FASTEST} is played "
            "at the nearest of the two."
        )
    return score


def _with_chords(score: Score) -> Score:
    """Return the score with chords for markers: its own if it names some, else recognised ones."""
    if chords := named(score):
        return score.replace(markers=chords)
    return score.replace(markers=recognise(score)).remark(
        "No chords are named; they are recognised from the notes."
    )
