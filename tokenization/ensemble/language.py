"""The ensemble language: arrange a score, convert it to tokens, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.beats import on_own_bars, with_tempo, without_rest_in_front
from tokenization.analysis.chords import CHORDS, named
from tokenization.analysis.hearing import with_chords
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.parts import (
    chosen_tracks,
    find_drums,
    note_counts,
    parts_of,
    regrouped,
    remarks_on_others,
)
from tokenization.ensemble.beginning import beginning, beginnings, key_of, with_style_and_key
from tokenization.ensemble.goals import (
    accompanying,
    continuing,
    infilling,
    rewriting,
    unscripted,
)
from tokenization.ensemble.habitual import habitual
from tokenization.ensemble.naming import parts_named
from tokenization.ensemble.plan import FAMILY, Plan, bars_back, plan_for, plan_of, with_plan
from tokenization.ensemble.promises import not_ringing
from tokenization.ensemble.sequences import decoded, plain
from tokenization.ensemble.spelling import (
    Reading,
    Setting,
    Sheet,
    closed,
    names_of,
    sheet_of,
    spell,
)
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    BEFORE,
    BEGIN,
    CHORD,
    CLOCK_STEPS,
    DRUMS,
    EARLIER,
    END,
    EXTRA_START,
    FAMILIES,
    FLAT_VELOCITY,
    HARMONY,
    HIGHEST_DRUM,
    INSTRUMENT_OF,
    LATER_STYLE,
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
    STYLE,
    VOCABULARY,
)
from tokenization.grammar import Grammar
from tokenization.language import Encoded, Goal, Language, Vocabulary, Wanted
from tokenization.score import Marker, Score, Track, steps_of, sustained
from tokenization.wording import Remark

# For prompts without dynamics: the velocities of notes on a bar line, a beat, an eighth, and elsewhere.
ACCENTS = (92, 84, 76, 70)
MOST_TRACKS = MOST_PARTS - 1  # the chords are a part too


def arrange(score: Score, tracks: int | str | Iterable[int | str] | None = None) -> Score:
    """Align a score with its bars, make each track a part, and put a chord on every bar line.

    `tracks`: the tracks to include, by index or name; None for all, also silent ones, which may enter later.
    """
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    wanted = range(len(score.tracks)) if tracks is None else tracks
    chosen = chosen_tracks(score, wanted) + (_silent(score) if tracks is None else [])
    score = without_rest_in_front(on_own_bars(_with_parts(sustained(score), chosen)))
    return _with_chords(with_tempo(_without_dynamics(score)))


def _silent(score: Score) -> list[int]:
    """Return the tracks without notes; of those on drums, the first if no others are drums."""
    silent = [index for index, notes in enumerate(note_counts(score)) if not notes]
    has_drums = bool(find_drums(parts_of(score)))
    kit = [index for index in silent if score.tracks[index].is_drum][0 if has_drums else 1 :]
    return [index for index in silent if index not in kit]


def _with_parts(score: Score, chosen: list[int]) -> Score:
    """Return the score with the chosen tracks only, and all drums merged into one track."""
    drums = {index for part in find_drums(parts_of(score)) for index in part.tracks}
    kept = _that_fit(score, chosen, drums)
    kit = [index for index in kept if index in drums]
    groups = [
        (Track(score.tracks[index].name, 0, True), kit)
        if index in kit
        else (score.tracks[index], [index])
        for index in kept
        if index not in kit[1:]
    ]
    remarks = remarks_on_others(score, kept)
    if len(kit) > 1:
        remarks.append(Remark("The drums of several tracks were merged into one part."))
    return regrouped(score, groups).remark(*remarks)


def _that_fit(score: Score, chosen: list[int], drums: set[int]) -> list[int]:
    """Return the chosen tracks that fit into the limits, preferring busy ones."""
    counts, voices = note_counts(score), Counter[int]()
    room = MOST_TRACKS - bool(drums.intersection(chosen))
    kept = []
    for index in sorted(chosen, key=lambda index: -counts[index]):
        instrument = int(INSTRUMENT_OF[score.tracks[index].program])
        if index in drums:
            kept.append(index)
        elif room and voices[instrument] < MOST_VOICES:
            kept.append(index)
            room -= 1
            voices[instrument] += 1
    return sorted(kept)


def _without_dynamics(score: Score) -> Score:
    """Mark a score in which all notes have the same velocity as one without dynamics."""
    velocity = score.notes.velocity
    if (velocity == velocity[0]).all():
        flat = np.full_like(velocity, FLAT_VELOCITY)
        return score.replace(notes=score.notes.replace(velocity=flat))
    return score


def _accented(score: Score) -> Score:
    """Return the score with velocities that follow the position of each note in its bar."""
    onset, beat = score.notes.onset_ticks, score.ticks_per_beat
    lines = bar_lines(score, bar_count(score))
    place = onset - lines[np.searchsorted(lines, onset, side="right") - 1]
    conditions = [place == 0, place % beat == 0, 2 * place % beat == 0]
    velocity = np.select(conditions, ACCENTS[:3], ACCENTS[3])
    return score.replace(notes=score.notes.replace(velocity=velocity))


def _with_chords(score: Score) -> Score:
    """Return the score with its own or recognised chords as markers, where they change and on bar lines."""
    if not named(score) and not len(score.pitched):
        return score.replace(markers=())
    score = with_chords(score)
    return score.replace(markers=_on_bar_lines(score))


def _on_bar_lines(score: Score) -> tuple[Marker, ...]:
    """Return the chords, with those that last past a bar line repeated there."""
    known = [marker for marker in score.markers if marker.text in CHORDS]
    known.sort(key=lambda chord: chord.onset_ticks)
    if not known:
        return ()
    onsets = np.array([chord.onset_ticks for chord in known])
    lines = bar_lines(score, bar_count(score))[:-1]
    lines = lines[(lines > onsets[0]) & ~np.isin(lines, onsets)]
    current = np.searchsorted(onsets, lines, side="right") - 1
    repeated = [known[index].at(int(line)) for line, index in zip(lines, current, strict=True)]
    return tuple(sorted([*known, *repeated], key=lambda chord: chord.onset_ticks))


class Ensemble(Language):
    """Any number of parts in any metre, with plans, endings and gaps."""

    name = "ensemble"
    begin = BEGIN
    end = END
    bar = BAR
    onset_steps = STEPS_PER_BEAT
    every_metre = True
    draws_by_kind = True
    parts = (*PART_NAMES, *FAMILIES)
    abilities = ("continue", "end", "rewrite", "accompany", "chords", "plan")
    details: ClassVar = {
        "steps_per_beat": STEPS_PER_BEAT,
        "lengths": LENGTHS.tolist(),
        "loudness_levels": LOUDNESS_LEVELS,
        "flat_velocity": FLAT_VELOCITY,
        "drums": [LOWEST_DRUM, HIGHEST_DRUM],
    }
    arrange = staticmethod(arrange)

    def __init__(self, vocabulary: Vocabulary = VOCABULARY) -> None:
        self.vocabulary = vocabulary

    def earlier(self) -> list[Language]:
        """Return the version without the later styles."""
        return [Ensemble(EARLIER)]

    def encode(self, score: Score) -> Encoded:
        """Convert an arranged score to tokens, from `begin` to `end`."""
        return self._encoded(score)

    def _encoded(self, score: Score, *, to_its_end: bool = False) -> Encoded:
        sheet, losses = sheet_of(score, to_its_end=to_its_end)
        ids = spell(sheet).astype(np.uint16)
        onset = steps_of(score.tempos.onset_ticks, score.ticks_per_beat, STEPS_PER_BEAT).tolist()
        tempos = zip(onset, score.tempos.beats_per_minute.tolist(), strict=True)
        notes = int((sheet.instrument != HARMONY).sum())
        setting = Setting(tracks=score.tracks, tempos=tuple(tempos))
        return Encoded(ids=ids, bars=self.bars(ids), notes=notes, losses=losses, setting=setting)

    def encode_for_model(self, arranged: Score, score: Score) -> Encoded:
        """Convert the arranged form of a score to tokens, to its last bar of rest, adding accents if it is flat.

        In the training data only classical keyboard music and hymns are `flat`, so models continue a flat prompt so.
        The setting keeps the velocity of the file for the decoded score.
        """
        if not (arranged.notes.velocity == FLAT_VELOCITY).all():
            return self._encoded(arranged, to_its_end=True)
        encoded = self._encoded(_accented(arranged), to_its_end=True)
        velocity = int(np.median(score.notes.velocity))
        return replace(encoded, setting=replace(encoded.setting, velocity=velocity))

    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Convert a valid sequence or prefix to a score; an incomplete event at the end is left out."""
        return decoded(ids, setting)

    def setting_before(self, setting: Any, ticks: int) -> Any:
        """Return the setting without the tempos from a tick on."""
        return setting and replace(
            setting, tempos=tuple(one for one in setting.tempos if one[0] < ticks)
        )

    def finished(self, score: Score, new: np.ndarray) -> Score:
        """Return a piece in which new notes of one voice do not overlap."""
        return not_ringing(score, new)

    def sheet(self, ids: np.ndarray) -> Sheet:
        """Return the piece on the grid that a valid plain sequence encodes."""
        return Reading(closed(ids)).sheet()

    def described(
        self, ids: np.ndarray, key_signature: tuple[int, bool] | None = None
    ) -> np.ndarray:
        """Return the beginning of a piece with its key and the plan of all complete bars."""
        sheet = self.sheet(ids)
        if not len(sheet.bar):
            return ids
        bars = len(self.bars(ids)) - (ids[-1] == BAR)
        plan = {name: levels[:bars] for name, levels in plan_of(sheet).items()}
        return with_style_and_key(with_plan(ids, plan), key=key_of(sheet, key_signature))

    def part_names(self, ids: np.ndarray) -> tuple[str, ...]:
        """Return the name of each track, as `accompanying` takes it."""
        parts = Reading(plain(ids)).parts
        return tuple(names_of(parts[parts != HARMONY]))

    def kinds(self) -> np.ndarray:
        """Return one kind per block, and one for all styles."""
        kinds = super().kinds()
        kinds[LATER_STYLE.start : LATER_STYLE.stop] = kinds[STYLE.start]
        return kinds

    def plan_tokens(self, asked: Collection[str] | None = None) -> list[int]:
        """Return the plan tokens, all or only those of the attributes in `asked`."""
        names = PLAN if asked is None else [FAMILY.get(name, name) for name in asked]
        blocks = [VOCABULARY[name] for name in names]
        return [token for block in blocks for token in range(block.start, block.stop)]

    def chord_tokens(self) -> range:
        """Return the tokens that name chords."""
        return range(CHORD.start, CHORD.stop)

    def recalled(self) -> dict[str, Any]:
        """Return the roles of tokens for a model with recall (musicgen/recall.py)."""
        blocks = {name: [block.start, block.stop] for name, block in VOCABULARY.blocks.items()}
        # The distance in bars of each return token: 0 for a new bar, −1 for any other distance.
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
        """Return how bar, part and position tokens move time, in eighths of a beat.

        All bars count as long as the longest one, so the same position in the previous bar is the same distance back in
        every metre. Each part starts again at the beginning of its bar.
        """
        stride = LONGEST_BAR // CLOCK_STEPS
        ticks = np.minimum((np.arange(LONGEST_BAR) + 1) // CLOCK_STEPS, stride - 1)
        moves = [[BAR, 1, 0], *([part, 0, 0] for part in range(PART.start, PART.stop))]
        moves += [[AT.start + step, 0, int(tick)] for step, tick in enumerate(ticks)]
        return {"bar_ticks": stride, "step_ticks": stride, "moves": moves}

    # What follows is done in beginning.py, plan.py, naming.py and goals.py.

    def beginnings(self) -> dict[str, list[str]]:
        return beginnings(self.vocabulary)

    def beginning(
        self, asked: Mapping[str, Any], plan: Mapping[str, Any] | None = None, /
    ) -> tuple[np.ndarray, Setting]:
        return beginning(asked, plan, self.vocabulary)

    def plan(self, asked: Mapping[str, Any], bars: int, /) -> Plan:
        return plan_for(asked, bars)

    def bars_back(self, asked: Mapping[str, Any], bars: int, /) -> list[int]:
        return bars_back(asked, bars)

    def parts_named(self, tracks: Sequence[Track], names: Collection[int | str]) -> list[Wanted]:
        return parts_named(tracks, names)

    def infilling(
        self,
        ids: np.ndarray,
        start: int,
        stop: int,
        *,
        write: Collection[Wanted] | None = None,
        plan: Plan | None = None,
        free: bool = False,
        differs: bool = False,
    ) -> Goal:
        if write is None:
            return infilling(ids, start, stop, plan, free=free, differs=differs)
        return rewriting(ids, start, stop, write, plan, free=free, differs=differs)

    def accompanying(
        self,
        ids: np.ndarray,
        write: Collection[Wanted],
        *,
        plan: Plan | None = None,
        free: bool = False,
    ) -> Goal:
        return accompanying(ids, write, plan, free=free)

    def grammar(
        self,
        prompt: Sequence[int] | np.ndarray = (),
        *,
        prompt_bars: int = 0,
        bars: int = 0,
        ends: bool = False,
        chords: Sequence[Sequence[str]] | None = None,
        plan: Plan | None = None,
        free: bool = True,
        chooses_metre: bool = False,
    ) -> Grammar:
        keeps = {"free": free, "chooses_metre": chooses_metre}
        ids = np.asarray(prompt)
        if not ends and chords is None and plan is None:
            grammar = unscripted(ids, prompt_bars, **keeps)
        else:
            grammar = continuing(ids, bars, ends, chords, plan, **keeps)
        return grammar if free else habitual(grammar, ids, plan, writes_chords=chords is None)
