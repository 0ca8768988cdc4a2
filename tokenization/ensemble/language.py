"""The ensemble language: any score, in all its parts, as tokens and back.

First a score is arranged: parts on the grid of the language, with chords; the remarks say what that took.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.beats import DEFAULT_BEATS_PER_MINUTE, on_own_bars, without_rest_in_front
from tokenization.analysis.chords import CHORDS, named, with_chords
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.parts import chosen_tracks, find_drums, label, note_counts, parts_of
from tokenization.ensemble.goals import Goals, names_of
from tokenization.ensemble.grammar import EnsembleGrammar
from tokenization.ensemble.layouts import about, key_of, plain, plan_of, planned
from tokenization.ensemble.plans import Plans
from tokenization.ensemble.spelling import (
    Reading,
    Setting,
    Sheet,
    closed,
    score_of,
    sheet_of,
    spell,
)
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    BEFORE,
    BEGIN,
    CLOCK_STEPS,
    DRUMS,
    END,
    EXTRA_START,
    FAMILIES,
    FLAT_VELOCITY,
    HARMONY,
    HIGHEST_DRUM,
    INSTRUMENT_OF,
    LENGTHS,
    LONGEST_BAR,
    LOUDNESS_LEVELS,
    LOWEST_DRUM,
    MOST_PARTS,
    MOST_VOICES,
    PART,
    PART_NAMES,
    PLAN,
    RETURNS,
    STEPS_PER_BEAT,
    VOCABULARY,
)
from tokenization.language import Encoded
from tokenization.score import (
    Marker,
    Score,
    Tempos,
    Track,
    cut_at_next_strike,
    steps_of,
    sustained,
)
from tokenization.wording import Remark, listed

# The velocities of notes on a bar line, a quarter, an eighth and elsewhere, where a prompt has no dynamics.
ACCENTS = (92, 84, 76, 70)
MOST_TRACKS = MOST_PARTS - 1  # the chords are a part too


def arrange(score: Score, tracks: int | str | Iterable[int | str] | None = None) -> Score:
    """Bring any score to its own bars, a part for each track that plays, with a chord on each bar line.

    `tracks` names the tracks to play, by index or name; else all are.
    """
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    wanted = range(len(score.tracks)) if tracks is None else tracks
    score = sustained(_with_tracks(score, chosen_tracks(score, wanted)))
    score = without_rest_in_front(on_own_bars(score))
    return _with_chords(_with_tempo(_without_dynamics(score)))


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


def _accented(score: Score) -> Score:
    """Return the score with each note as loud as its place in the bar asks for."""
    onset, beat = score.notes.onset_ticks, score.ticks_per_beat
    lines = bar_lines(score, bar_count(score))
    place = onset - lines[np.searchsorted(lines, onset, side="right") - 1]
    places = [place == 0, place % beat == 0, 2 * place % beat == 0]
    velocity = np.select(places, ACCENTS[:3], ACCENTS[3])
    return score.replace(notes=score.notes.replace(velocity=velocity))


def _with_tempo(score: Score) -> Score:
    if len(score.tempos):
        return score
    return score.replace(tempos=Tempos(np.array([0]), np.array([DEFAULT_BEATS_PER_MINUTE])))


def _with_chords(score: Score) -> Score:
    """Return the score with chords for markers, its own if it names some, where they change and on bar lines."""
    if not named(score) and not len(score.pitched):
        return score.replace(markers=())
    score = with_chords(score)
    return score.replace(markers=on_bar_lines(score, score.markers))


def on_bar_lines(score: Score, chords: Iterable[Marker]) -> tuple[Marker, ...]:
    """Return chords with those that sound on at a bar line named there again."""
    known = sorted((c for c in chords if c.text in CHORDS), key=lambda chord: chord.onset_ticks)
    if not known:
        return ()
    onsets = np.array([chord.onset_ticks for chord in known])
    lines = bar_lines(score, bar_count(score))[:-1]
    again = lines[(lines > onsets[0]) & ~np.isin(lines, onsets)]
    standing = np.searchsorted(onsets, again, side="right") - 1
    said = [known[place].at(int(at)) for at, place in zip(again, standing, strict=True)]
    return tuple(sorted([*known, *said], key=lambda chord: chord.onset_ticks))


class Ensemble(Goals, Plans):
    """Any parts with their instruments, in every metre, with a plan, ends and gaps."""

    name = "ensemble"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    bar = BAR
    onset_steps = STEPS_PER_BEAT
    every_metre = True
    draws_by_kind = True
    parts = (*PART_NAMES, *FAMILIES)
    abilities = ("continue", "end", "rewrite", "accompany", "chords", "plan")
    rules = EnsembleGrammar
    arrange = staticmethod(arrange)
    details: ClassVar = {
        "steps_per_beat": STEPS_PER_BEAT,
        "lengths": LENGTHS.tolist(),
        "loudness_levels": LOUDNESS_LEVELS,
        "flat_velocity": FLAT_VELOCITY,
        "drums": [LOWEST_DRUM, HIGHEST_DRUM],
    }

    def encode(self, score: Score) -> Encoded:
        """Spell an arranged score, from the begin token to the end token."""
        sheet, losses = sheet_of(score)
        ids = spell(sheet).astype(np.uint16)
        onset = steps_of(score.tempos.onset_ticks, score.ticks_per_beat, STEPS_PER_BEAT).tolist()
        tempos = zip(onset, score.tempos.beats_per_minute.tolist(), strict=True)
        notes = int((sheet.instrument != HARMONY).sum())
        setting = Setting(tracks=score.tracks, tempos=tuple(tempos))
        return Encoded(ids=ids, bars=self.bars(ids), notes=notes, losses=losses, setting=setting)

    def encode_for_model(self, arranged: Score, score: Score) -> Encoded:
        """Spell an arranged score, which was `score`; one without dynamics with accents on bar lines and beats.

        In training, `flat` stands before classical keyboard music alone, so a model goes on with such music after it.
        What is written has the velocity of the file all the same.
        """
        if not (arranged.notes.velocity == FLAT_VELOCITY).all():
            return self.encode(arranged)
        encoded = self.encode(_accented(arranged))
        velocity = int(np.median(score.notes.velocity))
        return replace(encoded, setting=replace(encoded.setting, velocity=velocity))

    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Read a valid sequence or a prefix of one, without its plan and goals; what is not complete is left out."""
        return cut_at_next_strike(score_of(self.sheet(plain(ids)), setting or Setting()))

    def sheet(self, ids: np.ndarray) -> Sheet:
        """Return what a valid plain sequence says, on the grid."""
        return Reading(closed(ids)).sheet()

    def described(self, ids: np.ndarray) -> np.ndarray:
        """Return the beginning of a piece that says its key and, of all bars but one just begun, their plan."""
        sheet = self.sheet(ids)
        if not len(sheet.bar):
            return ids
        bars = len(self.bars(ids)) - (ids[-1] == BAR)
        plan = {name: levels[:bars] for name, levels in plan_of(sheet).items()}
        return about(planned(ids, plan), key=key_of(sheet))

    def part_names(self, ids: np.ndarray) -> tuple[str, ...]:
        """Return the name of each track of a piece, by which `accompanying` knows it."""
        parts = Reading(plain(ids)).parts
        return tuple(names_of(parts[parts != HARMONY]))

    def recalled(self) -> dict[str, Any]:
        """Return what tokens mean to a model that recalls."""
        blocks = {name: [block.start, block.stop] for name, block in VOCABULARY.blocks.items()}
        # How many bars back each token returns: 0 for a new bar, −1 for an earlier one without a name.
        back = {"new": 0, "other": -1, **{bars: int(bars) for bars in RETURNS if bars.isdecimal()}}
        start = blocks["return"][0]
        return {
            "bar": BAR,
            "restart": BEFORE,
            "parts": blocks["part"],
            "places": blocks["at"],
            "notes": [blocks[name] for name in ("pitch", "drum", "chord")],
            "values": [blocks[name] for name in ("length", "loudness")],
            "said": EXTRA_START,
            "plan": [blocks[name] for name in PLAN if name != "return"],
            "drums": PART.start + DRUMS,
            "returns": [[start + RETURNS.index(name), bars] for name, bars in back.items()],
        }

    def clock(self) -> dict[str, Any]:
        """Return how bars and places move time, in eighths of a beat.

        Each bar takes as long as the longest there is. So what stands at the same place of the bar before lies one bar
        back in every metre. Each part goes back to the start of its bar.
        """
        stride = LONGEST_BAR // CLOCK_STEPS
        places = np.minimum((np.arange(LONGEST_BAR) + 1) // CLOCK_STEPS, stride - 1)
        moves = [[BAR, 1, 0], *([part, 0, 0] for part in range(PART.start, PART.stop))]
        moves += [[AT.start + step, 0, int(tick)] for step, tick in enumerate(places)]
        return {"bar_ticks": stride, "step_ticks": stride, "moves": moves}
