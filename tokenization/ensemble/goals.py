"""Goals of the ensemble language: fill a gap, write parts to others, continue to an end, each with an optional plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count, pairwise

import numpy as np

from tokenization.analysis.chords import CHORDS
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.grammar import TONIC, TONICS, EnsembleGrammar, Script, Scripted
from tokenization.ensemble.layouts import (
    NO_LEVEL,
    Plan,
    bar_offsets,
    bars_after_gap,
    body_start,
    plain,
    plan_of,
    with_parts,
)
from tokenization.ensemble.spelling import Reading, Sheet, declared, voices_of
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    CHORD,
    HARMONY,
    HARMONY_ID,
    KEY,
    LEFT_1,
    METRE,
    METRE_STEPS,
    MOST_PARTS,
    PART,
    PART_NAMES,
    PITCHED,
    PLAN,
    PLAYERS,
    SEAM_1,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
    instruments,
    label_of,
)
from tokenization.grammar import Grammar
from tokenization.language import COUNTED, Goal, Language, check_gap, suffix_stop
from tokenization.score import Notes, Score
from tokenization.wording import listed

THINNER = 2  # density levels of the last bar below the median


class Goals(Language):
    """The goals and grammars of the ensemble language."""

    def infilling(
        self,
        ids: np.ndarray,
        start: int,
        stop: int,
        *,
        plan: Plan | None = None,
    ) -> Goal:
        """Return the goal to rewrite the bars start … stop − 1 of a piece; all other notes stay."""
        ids = plain(ids)
        offsets = bar_offsets(ids)
        bars = len(offsets) - 1
        check_gap(start, stop, bars)
        reading = Reading(ids)
        metres = _metre_tokens(reading)
        planned = _plan_tokens(plan, bars)
        suffix, head = bars_after_gap(ids, stop), body_start(ids)
        gap = [[SEAM_1 + stop - 1 - bar, *planned[bar], *metres[bar]] for bar in range(start, stop)]
        prompt = np.concatenate([ids[:head], suffix, ids[head : offsets[start]], [BAR], gap[0]])
        script = Script.around([suffix.tolist(), *[[]] * (stop - 1)], [*[[]] * start, *gap])
        grammar = EnsembleGrammar(metres=False, given_bars=start)
        piece = self.decode(ids)
        starts, lengths = reading.bars.start, reading.bars.length
        gap_start = int(starts[start]) * STEPS_PER_SUBBEAT
        gap_end = int(starts[stop - 1] + lengths[stop - 1]) * STEPS_PER_SUBBEAT

        def inside(notes: Notes) -> np.ndarray:
            return (notes.onset_ticks >= gap_start) & (notes.onset_ticks < gap_end)

        def whole(written: np.ndarray) -> np.ndarray:
            new = self.decode(written)
            kept = piece.notes[~inside(piece.notes)]
            markers = [m for m in piece.markers if not gap_start <= m.onset_ticks < gap_end]
            markers += [m for m in new.markers if gap_start <= m.onset_ticks < gap_end]
            notes = Notes.concatenate([kept, new.notes[inside(new.notes)]])
            markers = tuple(sorted(markers, key=lambda marker: marker.onset_ticks))
            return self._encoded(piece.replace(notes=notes.sorted(), markers=markers), ids)

        return Goal(
            prompt=prompt,
            grammar=Scripted(grammar, script, may_end_silent=True),
            whole=whole,
            elsewhere=ids[offsets[min(suffix_stop(stop), bars)] : offsets[-1]],
            replaced=ids[offsets[start] : offsets[stop]],
        )

    def accompanying(
        self,
        ids: np.ndarray,
        write: Collection[str],
        *,
        plan: Plan | None = None,
    ) -> Goal:
        """Return the goal to write parts that go with the others of a piece, which stay unchanged.

        `write` names instruments, or `chords`. A part of the piece with such a name is replaced; otherwise a part is
        added, after all others. The written parts play in every bar in which another part plays, unless the plan sets
        the number of parts that play.
        """
        ids = plain(ids)
        reading = Reading(ids)
        existing, added = _named(reading.parts, write)
        given = [part for part in range(len(reading.parts)) if part not in existing]
        if not any(reading.parts[part] != HARMONY for part in given):
            raise ValueError(
                f"the piece has no other part to which {listed(list(write))} could be written"
            )
        if len(reading.parts) + len(added) > MOST_PARTS:
            raise ValueError(
                f"the piece would have {len(reading.parts) + len(added)} parts; the limit is {MOST_PARTS}"
            )
        bars = len(reading.bars)
        kept = with_parts(ids, given)
        offsets = bar_offsets(kept)
        order = np.concatenate([reading.parts[given], reading.parts[existing], added]).astype(
            np.int64
        )
        new = int((order[len(given) :] != HARMONY).sum())
        playing = plan_of(Reading(kept).sheet())["players"]
        everyone = np.where(playing >= 0, np.minimum(playing + new, PLAYERS - 1), NO_LEVEL)
        planned = _plan_tokens({"players": everyone, **(plan or {})}, bars)
        header = np.concatenate([kept[: int(np.argmax(PART.holds(kept)))], declared(order)])
        after = [
            [*planned[bar], *kept[offsets[bar] + 1 : offsets[bar + 1]].tolist()]
            for bar in range(bars)
        ]
        script = Script.around([[]] * bars, after)
        written = range(len(given), len(order))
        plays = "players" not in (plan or {})
        grammar = EnsembleGrammar(write=written, metres=False, plays=plays)
        piece = self.decode(ids)
        # Every part except the chords has a track. New tracks follow those of the piece.
        of_track = [part for part in range(len(reading.parts)) if reading.parts[part] != HARMONY]
        target = _targets(order, [*given, *existing], of_track)

        def whole(sequence: np.ndarray) -> np.ndarray:
            new = self.decode(sequence)
            return self._encoded(_joined(piece, new, target, len(given), order), ids)

        return Goal(
            prompt=np.concatenate([header, [BAR], after[0]]).astype(np.int64),
            grammar=Scripted(grammar, script, may_end_silent=True),
            whole=whole,
            tracks=tuple(target[number] for number in written if order[number] != HARMONY),
            writes_chords=bool((order[len(given) :] == HARMONY).any()),
        )

    def grammar(
        self,
        prompt: Sequence[int] | np.ndarray = (),
        *,
        prompt_bars: int = 0,
        bars: int = 0,
        ends: bool = False,
        chords: Sequence[Sequence[str]] | None = None,
        plan: Plan | None = None,
    ) -> Grammar:
        """Return the grammar for a continuation, with a script for the new bars if there are chords, a plan or an end.

        The first new bar is the one that the prompt has begun. The chords of each bar are repeated as often as needed.
        With `ends`, the bars count down to the end of the piece.
        """
        if not ends and chords is None and plan is None:
            return EnsembleGrammar(given_bars=prompt_bars)
        prompt = np.asarray(prompt)
        reading = Reading(plain(prompt))
        before = max(len(reading.bars) - 1, 0)
        planned, on_tonic = _plan_tokens(plan, bars), False
        if chords is not None and HARMONY not in reading.parts:
            advice = "this prompt has none" if before else "name its style or instruments"
            raise ValueError(f"given chords need a piece with pitched parts; {advice}")
        metre = int(reading.bars.metre[-1]) if len(reading.bars) else FOUR_FOUR
        if ends:
            sheet = reading.sheet()
            planned[-1] = _last_bar_plan(sheet, plan, bars)
            pitched = sheet.parts[1:] < PITCHED
            on_tonic = chords is None and bool(pitched.any()) and sheet.parts[0] == HARMONY
            if on_tonic:
                # The key of a new piece may have been requested. That of a prompt only describes its beginning.
                keys = prompt[KEY.holds(prompt)] - KEY.start
                requested = len(keys) > 0 and not before
                planned[-1] += [HARMONY_ID, AT.start, int(TONICS[keys[0]]) if requested else TONIC]
        opening = prompt[bar_offsets(prompt)[-2] + 1 :].tolist() if len(reading.bars) else []
        after = [
            [*([LEFT_1 + left - 1] if ends and left <= COUNTED else []), *tokens]
            for left, tokens in zip(range(bars, 0, -1), planned, strict=True)
        ]
        # The prompt of a new piece may contain the plan of its first bar already.
        after[0] = opening or after[0]
        if chords is not None:
            after = [
                [*a, *_chord_tokens(chords[bar % len(chords)], metre)]
                for bar, a in enumerate(after)
            ]
        # Music without an end is stopped at its length, when it begins one more bar.
        after += [] if ends else [[]]
        script = Script.around([[]] * (before + len(after)), [*[[]] * before, *after])
        write = None if chords is None else np.flatnonzero(reading.parts != HARMONY)
        free = EnsembleGrammar(write=write, metres=chords is None, given_bars=before)
        return Scripted(free, script, on_tonic=on_tonic)

    def _encoded(self, score: Score, ids: np.ndarray) -> np.ndarray:
        return self.encode(score).ids if len(score.notes) else ids[:1]


def _chord_tokens(chords: Sequence[str], metre: int) -> list[int]:
    """Return the tokens of chords that divide a bar evenly."""
    steps, ids = int(METRE_STEPS[metre]), []
    for number, chord in enumerate(chords):
        if not number or chord != chords[number - 1]:
            at = AT.start + number * steps // len(chords)
            ids += [at, CHORD.start + CHORDS.index(chord)]
    return [HARMONY_ID, *ids]


def _last_bar_plan(sheet: Sheet, plan: Plan | None, bars: int) -> list[int]:
    """Return the plan tokens of the last bar: those of the plan, else a density below the median of the piece."""
    density = plan_of(sheet)["density"] if len(sheet.bars) else np.zeros(0)
    played = density[density > 0]
    thin = max(int(np.median(played)) - THINNER, 1) if len(played) else NO_LEVEL
    asked = {name: levels for name, levels in (plan or {}).items() if levels[bars - 1] >= 0}
    return _plan_tokens({"density": np.full(bars, thin), **asked}, bars)[-1]


def _named(parts: np.ndarray, write: Collection[str]) -> tuple[list[int], list[int]]:
    """Return the existing parts that names refer to, and the instruments of the parts to add."""
    if not write:
        raise ValueError("no part is named; name an instrument to write, such as piano or drums")
    labels = names_of(parts)
    existing, added = [], []
    for name in dict.fromkeys(write):
        label = label_of(name)
        candidates = (label,) if label in labels else instruments(name)
        if found := [index for index, each in enumerate(labels) if each in candidates]:
            existing.append(found[0])
        else:
            added.append(PART_NAMES.index(candidates[0]))
    return sorted(existing), added


def names_of(parts: np.ndarray) -> list[str]:
    """Return the names of parts: instruments, numbered from the second part of each."""
    return [
        PART_NAMES[part] + (f"_{voice}" if voice > 1 else "")
        for part, voice in zip(parts.tolist(), voices_of(parts).tolist(), strict=True)
    ]


def _targets(order: np.ndarray, old: list[int], of_track: list[int]) -> dict[int, int]:
    """Return the track of each part in writing order: its own, or a new one after all others."""
    target, after = {}, count(len(of_track))
    for number, instrument in enumerate(order.tolist()):
        if instrument != HARMONY:
            is_old = number < len(old)
            target[number] = of_track.index(old[number]) if is_old else next(after)
    return target


def _joined(
    piece: Score, new: Score, target: dict[int, int], given: int, order: np.ndarray
) -> Score:
    """Return a piece with the written parts, which replace its own or are added."""
    track_of, written = np.array([*target.values()]), np.array([*target]) >= given
    notes = new.notes
    notes = notes.replace(track=track_of[notes.track])[written[notes.track]]
    replaced = track_of[written]
    kept = piece.notes[~np.isin(piece.notes.track, replaced)]
    tracks = list(piece.tracks) + [None] * (len(track_of) - len(piece.tracks))
    for number, track in zip(track_of.tolist(), new.tracks, strict=True):
        tracks[number] = tracks[number] or track
    harmony_is_new = (order[given:] == HARMONY).any()
    return piece.replace(
        notes=Notes.concatenate([kept, notes]).sorted(),
        tracks=tuple(tracks),
        markers=new.markers if harmony_is_new else piece.markers,
    )


def _metre_tokens(reading: Reading) -> list[list[int]]:
    """Return the metre token of each bar in which the metre changes; an empty list elsewhere."""
    metres = [FOUR_FOUR, *reading.bars.metre.tolist()]
    return [[METRE.start + now] if now != last else [] for last, now in pairwise(metres)]


def _plan_tokens(plan: Plan | None, bars: int) -> list[list[int]]:
    """Return the plan tokens of each bar, in the order of the families."""
    tokens: list[list[int]] = [[] for _ in range(bars)]
    for name in PLAN:
        for bar, level in enumerate([] if plan is None else plan.get(name, [])[:bars]):
            if level >= 0:
                tokens[bar].append(VOCABULARY[name].start + int(level))
    return tokens
