"""Goals of the ensemble language: fill a gap, accompany given parts, continue to an end, each with an optional plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np

from tokenization.analysis.chords import CHORDS
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.grammar import TONICS, TRIADS, EnsembleGrammar
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
    END,
    HARMONY,
    HARMONY_ID,
    KEY,
    LEFT_1,
    LENGTHS,
    METRE,
    METRE_STEPS,
    MOST_PARTS,
    PART,
    PART_NAMES,
    PITCH,
    PITCHED,
    PLAN,
    PLAYERS,
    SEAM_1,
    STEPS_PER_SUBBEAT,
    VOCABULARY,
    instruments,
    label_of,
    longest_within,
)
from tokenization.grammar import Grammar
from tokenization.language import COUNTED, Goal, Language, check_gap, suffix_stop
from tokenization.score import Notes, Score
from tokenization.wording import listed

THINNER = 2  # density levels of the last bar below the median


# Forced tokens around bar lines; between them the model chooses. Letters: N bars, L tokens of the script.

FREE = -1  # not in the script: the model chooses
TONIC = -1  # in a script: the tonic chord of the current key


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """The forced tokens around the bar tokens of a piece of N bars, as one passage per bar."""

    tokens: np.ndarray  # (L,)
    stop: np.ndarray  # (L,) the end of the passage that each token belongs to
    first: np.ndarray  # (N + 1,) the start of each passage; L after the last
    opening: np.ndarray  # (N + 1,) the first token of each passage; `end` after the last
    in_chords: np.ndarray  # (N + 1,) whether the passage contains chords; False after the last

    @classmethod
    def around(cls, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Script:
        """Return a script from the tokens before and after each bar token."""
        passages = [[*b, BAR, *a] for b, a in zip(before, after, strict=True)]
        lengths = np.array([len(passage) for passage in passages])
        first = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        tokens = np.array([token for passage in passages for token in passage], dtype=np.int64)
        opening = np.append(tokens, END)[first]
        in_chords = np.array([*(HARMONY_ID in part for part in after), False])
        stop = np.repeat(first[1:], lengths)
        return cls(tokens=tokens, stop=stop, first=first, opening=opening, in_chords=in_chords)


class Scripted(Grammar):
    """A grammar that inserts the passages of a script, and ends the music after the last bar.

    The model can end a bar with `bar`, `end`, or the first token of the next passage; `instead` turns the first two
    into the third.
    """

    counts_bars = True

    def __init__(
        self,
        grammar: EnsembleGrammar,
        script: Script,
        *,
        may_end_silent: bool = False,
        on_tonic: bool = False,
    ) -> None:
        """Start one sequence, where `grammar` is.

        `may_end_silent`: the last bar can be empty. `on_tonic`: the script has the tonic chord in the last bar, and
        only its tones are allowed on the downbeat there, as in the endings of real pieces.
        """
        self._grammar, self._script, self._may_end_silent = grammar, script, may_end_silent
        self._on_tonic = on_tonic
        self._place = np.full(len(grammar.bars), FREE)
        self._key = np.full(len(grammar.bars), -1)  # of the tonic chord in the last bar

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        mask = self._grammar.allowed().copy()
        bars, scripted = self._grammar.bars, self._place != FREE
        may_begin, has_next = mask[:, BAR].copy(), bars < len(self._script.first) - 1
        may_end = mask[:, END] | (may_begin & self._may_end_silent)
        over = np.flatnonzero(np.where(has_next, may_begin, may_end))
        mask[:, [BAR, END]] = False
        mask[over, BAR] = mask[over, END] = True
        mask[over, self._script.opening[bars[over]]] = True
        # A bar with scripted chords has no others. Before the first bar, index −1 reads the last entry, False.
        rows = np.flatnonzero(self._script.in_chords[bars - 1] & self._grammar.in_chords)
        mask[rows, AT.start : AT.stop] = False
        for row in np.flatnonzero((self._key >= 0) & self._grammar.on_downbeat):
            tones = mask[row].copy()
            tones[PITCH.start : PITCH.stop] &= TRIADS[self._key[row]]
            mask[row] = tones if tones.any() else mask[row]
        rows = np.flatnonzero(scripted)
        forced = self._script.tokens[self._place[rows]]
        forced[forced == TONIC] = self._grammar.tonics(rows[forced == TONIC])
        mask[rows] = False
        mask[rows, forced] = True
        return mask

    def take(self, ids: np.ndarray) -> None:
        """Advance past a valid prompt; all but the last bar at once if the script has only their bar tokens."""
        bars = np.flatnonzero(ids == BAR)
        first = self._script.first[: len(bars)]
        only_bars = len(bars) > 1 and (np.diff(first) == 1).all()
        last = bars[-1] if only_bars else 0
        self._grammar.take(ids[:last])
        super().take(ids[last:])

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return the script's next opening for a `bar` or `end` that the model chose; else the token."""
        opening = self._script.opening[self._grammar.bars]
        free = self._place == FREE
        over = free & (np.isin(tokens, (BAR, END)) | (tokens == opening))
        inner = self._grammar.instead(np.where(over, BAR, tokens))
        return np.where(over & (inner == BAR), opening, np.where(free, inner, tokens))

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row."""
        tokens, bars = np.asarray(tokens, dtype=np.int64), self._grammar.bars
        has_next = bars < len(self._script.first) - 1
        opens = (self._place == FREE) & has_next & (tokens == self._script.opening[bars])
        first = self._script.first[np.where(opens, bars, 0)]
        place = np.where(opens, first, np.maximum(self._place, 0))
        if self._on_tonic:
            is_tonic = ~has_next & (self._place != FREE) & np.isin(tokens, TONICS)
            self._key = np.where(is_tonic, (tokens[:, None] == TONICS).argmax(1), self._key)
        self._grammar.advance(tokens)
        within = (opens | (self._place != FREE)) & (place + 1 < self._script.stop[place])
        self._place = np.where(within, place + 1, FREE)


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
        """Return the goal to rewrite the bars start … stop − 1 of a piece; all other notes stay.

        New notes end with these bars, so that they do not sound over the next ones.
        """
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
            added = new.notes[inside(new.notes)]
            if stop < bars:
                longest = LENGTHS[longest_within(gap_end - added.onset_ticks)]
                added = added.replace(duration_ticks=np.minimum(added.duration_ticks, longest))
            kept = piece.notes[~inside(piece.notes)]
            markers = [m for m in piece.markers if not gap_start <= m.onset_ticks < gap_end]
            markers += [m for m in new.markers if gap_start <= m.onset_ticks < gap_end]
            notes = Notes.concatenate([kept, added])
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
                f"the piece has no other part that {listed(list(write))} could accompany"
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
