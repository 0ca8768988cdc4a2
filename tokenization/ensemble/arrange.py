"""Any score as parts on the grid of the ensemble language, with chords; its remarks say what that took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE
from tokenization.analysis.chords import CHORDS, named, recognise
from tokenization.analysis.grid import on_own_bars, without_rest_in_front
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.parts import find_drums, find_tracks, label, note_counts, parts_of
from tokenization.analysis.pedal import sustained
from tokenization.ensemble.tokens import (
    FLAT_VELOCITY,
    INSTRUMENT_OF,
    MOST_PARTS,
    MOST_VOICES,
)
from tokenization.score import Marker, Score, Tempos, Track
from tokenization.wording import Remark, listed

MOST_TRACKS = MOST_PARTS - 1  # the chords are a part too


def arrange(score: Score, tracks: int | str | Iterable[int | str] | None = None) -> Score:
    """Bring any score to its own bars, a part for each track that plays, with a chord on each bar line."""
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    chosen = _chosen(score, tracks)
    score = sustained(_with_tracks(score, chosen))
    score = without_rest_in_front(on_own_bars(score))
    return _with_chords(_with_tempo(_without_dynamics(score)))


def _chosen(score: Score, wanted: int | str | Iterable[int | str] | None) -> list[int]:
    """Return the tracks that play, or those of these indices and names."""
    counts = note_counts(score)
    if wanted is None:
        return [index for index, notes in enumerate(counts) if notes]
    wanted = [wanted] if isinstance(wanted, int | str) else list(wanted)
    chosen = sorted({index for name in wanted for index in find_tracks(score, name)})
    if not sum(counts[index] for index in chosen):
        raise ValueError("the chosen tracks hold no notes; choose others, or leave the choice open")
    return [index for index in chosen if counts[index]]


def _with_tracks(score: Score, chosen: list[int]) -> Score:
    """Return the score with the chosen tracks alone, all drums on one of them."""
    drums = {index for part in find_drums(parts_of(score))[0] for index in part.tracks}
    drums &= {*chosen}
    kept, remarks = _that_fit(score, chosen, drums)
    target: dict[int, int] = {}
    tracks: list[Track] = []
    drum_kit = None
    for index in kept:
        if index in drums and drum_kit is not None:
            target[index] = drum_kit
            kit = tracks[drum_kit]
            tracks[drum_kit] = replace(kit, sources=kit.sources + score.tracks[index].sources)
            continue
        if index in drums:
            drum_kit = len(tracks)
        target[index] = len(tracks)
        track = score.tracks[index]
        program = 0 if index in drums else track.program
        tracks.append(Track(track.name, program, index in drums, track.sources))
    if sum(index in drums for index in kept) > 1:
        remarks.append(Remark("The drums of several tracks are one part.", "tracks"))
    number = np.full(len(score.tracks), -1)
    number[list(target)] = list(target.values())
    notes, pedals = score.notes, score.pedals
    notes = notes.replace(track=number[notes.track])[number[notes.track] >= 0]
    pedals = pedals.replace(track=number[pedals.track])[number[pedals.track] >= 0]
    return score.replace(notes=notes.sorted(), pedals=pedals, tracks=tuple(tracks)).remark(*remarks)


def _that_fit(score: Score, chosen: list[int], drums: set[int]) -> tuple[list[int], list[Remark]]:
    """Return the tracks that have room, the busiest first where not all have, and what to say of the others."""
    counts, voices = note_counts(score), dict[int, int]()
    room = MOST_TRACKS - bool(drums)
    kept = []
    for index in sorted(chosen, key=lambda index: -counts[index]):
        instrument = int(INSTRUMENT_OF[score.tracks[index].program])
        if index in drums:
            kept.append(index)
        elif room and voices.get(instrument, 0) < MOST_VOICES:
            kept.append(index)
            room -= 1
            voices[instrument] = voices.get(instrument, 0) + 1
    left_out = [label(score, index) for index in chosen if index not in kept]
    remarks = [Remark(f"Left out: {listed(left_out)}.", "tracks")] if left_out else []
    return sorted(kept), remarks


def _without_dynamics(score: Score) -> Score:
    """Return the score, of one loudness throughout, as one without dynamics."""
    velocity = score.notes.velocity
    if (velocity == velocity[0]).all():
        flat = np.full_like(velocity, FLAT_VELOCITY)
        return score.replace(notes=score.notes.replace(velocity=flat))
    return score


def _with_tempo(score: Score) -> Score:
    if len(score.tempos):
        return score
    return score.replace(tempos=Tempos(np.array([0]), np.array([DEFAULT_BEATS_PER_MINUTE])))


def _with_chords(score: Score) -> Score:
    """Return the score with chords for markers, its own if it names some, where they change and on bar lines."""
    if chords := named(score):
        return score.replace(markers=on_bar_lines(score, chords))
    if not len(score.pitched):
        return score.replace(markers=())
    markers = on_bar_lines(score, recognise(score))
    return score.replace(markers=markers).remark(
        "No chords are named; they are recognised from the notes."
    )


def on_bar_lines(score: Score, chords: Iterable[Marker]) -> tuple[Marker, ...]:
    """Return chords with those that sound on at a bar line named there again."""
    known = sorted((c for c in chords if c.text in CHORDS), key=lambda chord: chord.onset_ticks)
    if not known:
        return ()
    onsets = np.array([chord.onset_ticks for chord in known])
    lines = bar_lines(score, bar_count(score))[:-1]
    again = lines[(lines > onsets[0]) & ~np.isin(lines, onsets)]
    standing = np.searchsorted(onsets, again, side="right") - 1
    said = [Marker(int(at), known[number].text) for at, number in zip(again, standing, strict=True)]
    return tuple(sorted([*known, *said], key=lambda chord: chord.onset_ticks))
