"""Goals of the ensemble language: fill a gap, write parts, continue to an end, each with an optional plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from tokenization.analysis.chords import CHORDS, parse
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.fitting import Fitting
from tokenization.ensemble.gap_returns import with_returns
from tokenization.ensemble.given_returns import returns_of
from tokenization.ensemble.grammar import NO_CLOSING, TONICS, EnsembleGrammar
from tokenization.ensemble.plan import NO_LEVEL, Plan, plan_of, return_levels, tokens_by_bar
from tokenization.ensemble.promises import Promises, promises_of
from tokenization.ensemble.script import TONIC, Script, Scripted
from tokenization.ensemble.sequences import (
    bar_offsets,
    bars_after_gap,
    decoded,
    plain,
    with_parts,
)
from tokenization.ensemble.spelling import (
    Reading,
    Setting,
    Sheet,
    declared,
    instrument_of,
    names_of,
    new_track,
    sheet_of,
    spell,
    voices_of,
)
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    CHORD,
    FAMILIES,
    HARMONY,
    HARMONY_ID,
    KEY,
    LEFT_1,
    LENGTHS,
    METRE,
    METRE_STEPS,
    MOST_PARTS,
    MOST_VOICES,
    PART,
    PART_NAMES,
    PITCHED,
    PLAYERS,
    SEAM_1,
    STEPS_PER_SUBBEAT,
    instruments,
    label_of,
    longest_within,
)
from tokenization.grammar import Grammar
from tokenization.language import COUNTED, Goal, Wanted, check_gap, suffix_stop
from tokenization.score import Notes, Score, Track

Chords = Sequence[Sequence[str]]  # of each bar
RECENT = 8  # bars before an ending, whose parts play in it
MOST_REST = 4  # bars in which a part of a new piece can rest
THINNER = 2  # density levels of the last bar below the median


def infilling(
    ids: np.ndarray,
    start: int,
    stop: int,
    plan: Plan | None,
    *,
    free: bool = False,
    differs: bool = False,
) -> Goal:
    """Return the goal to rewrite the bars start … stop − 1 of a piece; all other notes stay.

    New notes end with these bars, so that they do not sound over the next ones. With `free`, parts keep no promises;
    `differs` is as in `Language.infilling`.
    """
    ids = plain(ids)
    offsets = bar_offsets(ids)
    bars = len(offsets) - 1
    check_gap(start, stop, bars)
    reading = Reading(ids)
    metres = pairwise([FOUR_FOUR, *reading.bars.metre.tolist()])
    changes = [[METRE.start + now] if now != last else [] for last, now in metres]
    sheet = reading.sheet()
    written = np.ones(len(sheet.parts), dtype=bool)
    plan, sources = with_returns(plan, sheet, start, stop, written, differs=differs)
    planned = tokens_by_bar(plan, bars)
    suffix, head = bars_after_gap(ids, stop), offsets[0]
    gap = [[SEAM_1 + stop - 1 - bar, *planned[bar], *changes[bar]] for bar in range(start, stop)]
    prompt = np.concatenate([ids[:head], suffix, ids[head : offsets[start]], [BAR], gap[0]])
    script = Script.around([suffix.tolist(), *[[]] * (stop - 1)], [*[[]] * start, *gap])
    promises = None if free else promises_of(reading.parts, sheet)
    grammar = EnsembleGrammar(metres=False, given_bars=start, promises=promises)
    piece = decoded(ids)
    lines = np.append(0, np.cumsum(reading.bars.length)) * STEPS_PER_SUBBEAT
    begins, ends = lines[[start, stop]].tolist()
    inside = {"begins": begins, "ends": ends, "is_last": stop == bars}
    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, script, may_end_silent=True),
        whole=partial(_with_gap, piece=piece, ids=ids, **inside),
        elsewhere=ids[offsets[min(suffix_stop(stop), bars)] : offsets[-1]],
        sources=sources,
        replaced=ids[offsets[start] : offsets[stop]],
    )


def _with_gap(sequence: np.ndarray, piece: Score, ids: np.ndarray, **inside: Any) -> np.ndarray:
    """Return the ids of the piece with the bars of a sequence inside a gap."""
    return _encoded(_filled(piece, decoded(sequence), **inside), ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shares:
    """The parts of a piece, divided into given ones, which come first, and those to write."""

    ids: np.ndarray  # of the piece with its parts in this order; new ones are declared, but rest
    kept: np.ndarray  # of the piece with the given parts alone
    written: np.ndarray  # (P,) whether each part is written
    sounds: np.ndarray  # (P,) whether it is not the chords
    track: np.ndarray  # (P,) its track, of every part but the chords; new ones follow the others
    promises: Promises
    added: tuple[Track, ...]  # the new tracks

    @property
    def tracks(self) -> tuple[int, ...]:
        """The written tracks."""
        return tuple(self.track[self.written & self.sounds].tolist())

    @property
    def writes_chords(self) -> bool:
        """Whether the chords are among the written parts."""
        return bool((self.written & ~self.sounds).any())

    @cached_property
    def given(self) -> Sheet:
        """The given parts."""
        return Reading(self.kept).sheet()

    def planned(self, plan: Plan | None, back: np.ndarray | None = None) -> list[list[int]]:
        """Return the plan tokens of each bar; unless the plan says how many parts play, all written ones do.

        Where the given parts rest, they are free, but play on while a single part rests between its notes. `back`: how
        many bars back the source of each bar is, or 0, unless the plan says it.
        """
        playing = plan_of(self.given)["players"]
        heard = playing >= 0
        if (~self.written & self.sounds).sum() == 1:
            heard = np.logical_or.accumulate(heard) & np.logical_or.accumulate(heard[::-1])[::-1]
        new = int((self.written & self.sounds).sum())
        everyone = np.where(heard, np.minimum(playing + new, PLAYERS - 1), NO_LEVEL)
        found = {"players": everyone}
        if back is not None:
            found["return"] = np.where(back > 0, return_levels(back.tolist()), NO_LEVEL)
        return tokens_by_bar({**found, **(plan or {})}, len(playing))

    def grammar(self, back: np.ndarray | None, *, free: bool, **rules: Any) -> EnsembleGrammar:
        """Return the grammar of the written parts; they have roles if `back` says which bars return."""
        rules["write"] = np.flatnonzero(self.written)
        if free:
            return EnsembleGrammar(**rules)
        parts = Reading(self.ids).parts
        return Fitting.to(self.given, parts, self.written, back, promises=self.promises, **rules)

    def in_piece(self, piece: Score, sequence: np.ndarray) -> Score:
        """Return the written notes of a sequence and its chords, with the tracks of the piece and the new ones."""
        new = decoded(sequence)
        track, is_written = self.track[self.sounds], self.written[self.sounds]
        notes = new.notes.replace(track=track[new.notes.track])[is_written[new.notes.track]]
        markers = new.markers if self.writes_chords else ()
        return piece.replace(notes=notes, tracks=(*piece.tracks, *self.added), markers=markers)

    def with_new(self, sequence: np.ndarray, piece: Score, ids: np.ndarray) -> np.ndarray:
        """Return the ids of the piece with the parts of a sequence in all bars."""
        new = self.in_piece(piece, sequence)
        others = piece.notes[~np.isin(piece.notes.track, self.tracks)]
        notes = Notes.concatenate([others, new.notes]).sorted()
        markers = new.markers if self.writes_chords else piece.markers
        return _encoded(new.replace(notes=notes, markers=markers), ids)

    def with_rewritten(
        self, sequence: np.ndarray, piece: Score, ids: np.ndarray, **inside: Any
    ) -> np.ndarray:
        """Return the ids of the piece with the parts of a sequence inside some bars."""
        new = self.in_piece(piece, sequence)
        whole_band = piece.replace(tracks=new.tracks)
        filled = _filled(whole_band, new, **inside, tracks=self.tracks)
        markers = filled.markers if self.writes_chords else piece.markers
        return _encoded(filled.replace(markers=markers), ids)

    def setting(self, setting: Setting | None) -> Setting | None:
        """Return the setting of a piece, if it has one, with the new tracks."""
        return setting and replace(setting, tracks=(*setting.tracks, *self.added))


def _shared(ids: np.ndarray, write: Collection[Wanted]) -> _Shares:
    """Divide the parts of a plain piece into given ones and those to write, as `Language.accompanying` names them."""
    own = Reading(ids).parts
    existing, added = _wanted(own, write)
    given = [part for part in range(len(own)) if part not in existing]
    parts = np.concatenate([own, [part for part, _ in added]]).astype(np.int64)
    if len(parts) > MOST_PARTS:
        also = ", with the chords" if HARMONY in parts else ""
        raise ValueError(
            f"the piece would have {len(parts)} parts{also}; the limit is {MOST_PARTS}"
        )
    for part, _ in added:
        if (many := int((parts == part).sum())) > (MOST_VOICES if part < PITCHED else 1):
            name, limit = PART_NAMES[part].replace("_", " "), MOST_VOICES if part < PITCHED else 1
            raise ValueError(f"the piece would have {many} parts for {name}; the limit is {limit}")
    order = [*given, *existing, *range(len(own), len(parts))]
    spelled = with_parts(ids, order[: len(own)])
    first = int(np.argmax(PART.holds(spelled)))
    head = [spelled[:first], declared(parts[order])]
    return _Shares(
        ids=np.concatenate([*head, spelled[bar_offsets(spelled)[0] :]]).astype(np.int64),
        kept=with_parts(ids, given),
        written=np.arange(len(order)) >= len(given),
        sounds=parts[order] != HARMONY,
        track=(np.cumsum(parts != HARMONY) - 1)[order],
        promises=promises_of(parts, Reading(ids).sheet()).of(order),
        added=tuple(track for part, track in added if part != HARMONY),
    )


def accompanying(
    ids: np.ndarray, write: Collection[Wanted], plan: Plan | None, *, free: bool = False
) -> Goal:
    """Return the goal to write parts that go with the others of a piece, which stay unchanged.

    `write` is as in `Language.accompanying`. Parts of the piece are replaced; new ones are added after all others. The
    written parts play in every bar in which another part plays, unless the plan sets the number of parts that play.
    With `free`, parts keep no promises.
    """
    ids = plain(ids)
    shares = _shared(ids, write)
    if not (~shares.written & shares.sounds).any():
        raise ValueError("the piece has no other part that could be accompanied")
    offsets, kept = bar_offsets(shares.kept), shares.kept
    back = np.zeros(len(offsets) - 1, np.int64) if free else returns_of(shares.given)
    planned = shares.planned(plan, back)
    after = [
        [*tokens, *kept[offsets[bar] + 1 : offsets[bar + 1]].tolist()]
        for bar, tokens in enumerate(planned)
    ]
    piece = decoded(ids)
    header = shares.ids[: bar_offsets(shares.ids)[0]]
    rules: dict[str, Any] = {"metres": False, "plays": "players" not in (plan or {})}
    grammar = shares.grammar(back, free=free, **rules)
    said = "return" in (plan or {})
    return Goal(
        prompt=np.concatenate([header, [BAR], after[0]]).astype(np.int64),
        grammar=Scripted(grammar, Script.around([[]] * len(after), after), may_end_silent=True),
        whole=partial(shares.with_new, piece=piece, ids=ids),
        sources={} if said else {bar: int(bar - k) for bar, k in enumerate(back) if k},
        setting=shares.setting,
        tracks=shares.tracks,
        writes_chords=shares.writes_chords,
    )


def rewriting(
    ids: np.ndarray,
    start: int,
    stop: int,
    write: Collection[Wanted],
    plan: Plan | None,
    *,
    free: bool = False,
    differs: bool = False,
) -> Goal:
    """Return the goal to write some parts in the bars start … stop − 1 of a piece; all other notes stay.

    It is that of a gap in which the given parts are known. New parts play in these bars only. `free` and `differs` are
    as in `infilling`.
    """
    ids = plain(ids)
    shares = _shared(ids, write)
    bars = len(bar_offsets(ids)) - 1
    check_gap(start, stop, bars, most=bars)
    if stop - start == bars and (~shares.written & shares.sounds).any():
        return accompanying(ids, write, plan, free=free)
    offsets, suffix = bar_offsets(shares.ids), bars_after_gap(shares.ids, stop)
    sheet, written = Reading(shares.ids).sheet(), shares.written
    plan, sources = with_returns(plan, sheet, start, stop, written, differs=differs)
    own, planned = bar_offsets(shares.kept), shares.planned(plan)
    gap = [
        [
            *([SEAM_1 + stop - 1 - bar] if stop - bar <= COUNTED else []),
            *planned[bar],
            *shares.kept[own[bar] + 1 : own[bar + 1]].tolist(),
        ]
        for bar in range(start, stop)
    ]
    head, before = shares.ids[: offsets[0]], shares.ids[offsets[0] : offsets[start]]
    script = Script.around([suffix.tolist(), *[[]] * (stop - 1)], [*[[]] * start, *gap])
    rules: dict[str, Any] = {"metres": False, "plays": "players" not in (plan or {})}
    grammar = shares.grammar(None, free=free, given_bars=start, **rules)
    piece = decoded(ids)
    lines = np.append(0, np.cumsum(Reading(ids).bars.length)) * STEPS_PER_SUBBEAT
    begins, ends = lines[[start, stop]].tolist()
    inside = {"begins": begins, "ends": ends, "is_last": stop == bars}
    return Goal(
        prompt=np.concatenate([head, suffix, before, [BAR], gap[0]]).astype(np.int64),
        grammar=Scripted(grammar, script, may_end_silent=True),
        whole=partial(shares.with_rewritten, piece=piece, ids=ids, **inside),
        elsewhere=shares.ids[offsets[min(suffix_stop(stop), bars)] : offsets[-1]],
        sources=sources,
        replaced=shares.ids[offsets[start] : offsets[stop]],
        setting=shares.setting,
        tracks=shares.tracks,
        writes_chords=shares.writes_chords,
    )


def unscripted(
    prompt: np.ndarray, bars: int, *, free: bool, chooses_metre: bool
) -> EnsembleGrammar:
    """Return the grammar for a continuation without a script; `bars` of the prompt are complete."""
    if free:
        return EnsembleGrammar(given_bars=bars)
    reading = Reading(plain(prompt))
    given = bars or int(chooses_metre)
    return EnsembleGrammar(
        metres=False,
        given_bars=given,
        promises=promises_of(reading.parts, reading.sheet()),
        most_rest=0 if bars else MOST_REST,
    )


def continuing(
    prompt: np.ndarray,
    bars: int,
    ends: bool,
    chords: Chords | None,
    plan: Plan | None,
    *,
    free: bool = False,
    chooses_metre: bool = False,
) -> Grammar:
    """Return the grammar for a continuation with a script for the new bars, which has chords, a plan or an end.

    The first new bar is the one that the prompt has begun. The chords of each bar are repeated as often as needed.
    With `ends`, the bars count down to the end of the piece. With `free`, parts and metre keep no promises.
    """
    reading = Reading(plain(prompt))
    before = max(len(reading.bars) - 1, 0)
    planned, on_tonic = tokens_by_bar(plan, bars), False
    if chords is not None and HARMONY not in reading.parts:
        advice = "this prompt has none" if before else "name its style or instruments"
        raise ValueError(f"given chords need a piece with pitched parts; {advice}")
    metre = int(reading.bars.metre[-1]) if len(reading.bars) else FOUR_FOUR
    if ends:
        sheet = reading.sheet()
        planned[-1] = _last_bar_plan(sheet, plan, bars, everyone=not free)
        pitched = sheet.parts[1:] < PITCHED
        on_tonic = chords is None and bool(pitched.any()) and sheet.parts[0] == HARMONY
        if on_tonic:
            # The key of a new piece may have been requested. That of a prompt stays, unless it is short and the music
            # leaves it.
            keys = prompt[KEY.holds(prompt)] - KEY.start
            requested = len(keys) > 0 and (not before or (before >= bars and not free))
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
            [*a, *_chord_tokens(chords[bar % len(chords)], metre)] for bar, a in enumerate(after)
        ]
    # Music without an end is stopped at its length, when it begins one more bar.
    after += [] if ends else [[]]
    script = Script.around([[]] * (before + len(after)), [*[[]] * before, *after])
    write = None if chords is None else np.flatnonzero(reading.parts != HARMONY)
    given = before or int(chooses_metre and chords is None)
    if free:
        inner = EnsembleGrammar(write=write, metres=chords is None, given_bars=before)
        return Scripted(inner, script, on_tonic=on_tonic)
    sheet = reading.sheet()
    inner = EnsembleGrammar(
        write=write, metres=False, given_bars=given,
        promises=promises_of(reading.parts, sheet),
        most_rest=0 if before else MOST_REST,
        closing=(before + bars, _bass(sheet)) if on_tonic else NO_CLOSING,
    )  # fmt: skip
    return Scripted(inner, script, on_tonic=on_tonic, holds=ends)


def _bass(sheet: Sheet) -> int:
    """Return the lowest part: by its notes, else the first bass, else the last pitched part; −1 for none."""
    pitched = np.flatnonzero(sheet.parts < PITCHED).tolist()
    values = {part: sheet.value[sheet.part == part] for part in pitched}
    medians = {part: float(np.median(value)) for part, value in values.items() if len(value)}
    if medians:
        return min(medians, key=lambda part: medians[part])
    names = *FAMILIES["bass"], "contrabass"
    basses = [part for part in pitched if PART_NAMES[sheet.parts[part]] in names]
    return (basses[:1] or pitched[-1:] or [-1])[0]


def _chord_tokens(chords: Sequence[str], metre: int) -> list[int]:
    """Return the tokens of chords that divide a bar evenly."""
    steps, indices = int(METRE_STEPS[metre]), [CHORDS.index(parse(name) or "") for name in chords]
    new = [n for n, chord in enumerate(indices) if not n or chord != indices[n - 1]]
    events = [(AT.start + n * steps // len(indices), CHORD.start + indices[n]) for n in new]
    return [HARMONY_ID, *(token for event in events for token in event)]


def _last_bar_plan(sheet: Sheet, plan: Plan | None, bars: int, *, everyone: bool) -> list[int]:
    """Return the plan tokens of the last bar: those of the plan, else a density below the median of the piece.

    With `everyone`, as many parts play in it as in the bars before.
    """
    density = plan_of(sheet)["density"] if len(sheet.bars) else np.zeros(0)
    played = density[density > 0]
    thin = max(int(np.median(played)) - THINNER, 1) if len(played) else NO_LEVEL
    asked = {name: levels for name, levels in (plan or {}).items() if levels[bars - 1] >= 0}
    found = {"density": np.full(bars, thin)}
    if everyone and len(sheet.bars):
        found["players"] = np.full(bars, plan_of(sheet)["players"][-RECENT:].max())
    return tokens_by_bar({**found, **asked}, bars)[-1]


def _wanted(
    parts: np.ndarray, write: Collection[Wanted]
) -> tuple[list[int], list[tuple[int, Track]]]:
    """Return the existing parts that are to be written, and the instruments and tracks of those to add."""
    if not write:
        raise ValueError("no part is named; name an instrument to write, such as piano or drums")
    labels, with_track = names_of(parts), np.flatnonzero(parts != HARMONY)
    existing: list[int] = []
    added: list[tuple[int, Track]] = []
    new = parts
    for one in dict.fromkeys(write):
        if isinstance(one, int):
            existing.append(int(with_track[one]))
            continue
        instrument = instrument_of(one) if isinstance(one, Track) else -1
        if isinstance(one, str):
            label = label_of(one)
            candidates = (label,) if label in labels else instruments(one)
            if found := [index for index, each in enumerate(labels) if each in candidates]:
                existing.append(found[0])
                continue
            instrument = PART_NAMES.index(candidates[0])
        new = np.append(new, instrument)
        track = one if isinstance(one, Track) else new_track(instrument, int(voices_of(new)[-1]))
        added.append((instrument, track))
    return sorted({*existing}), added


def _encoded(score: Score, ids: np.ndarray) -> np.ndarray:
    return spell(sheet_of(score)[0]).astype(np.uint16) if len(score.notes) else ids[:1]


def _filled(
    piece: Score,
    new: Score,
    begins: int,
    ends: int,
    is_last: bool,
    tracks: Collection[int] | None = None,
) -> Score:
    """Return a piece with the notes and chords of another one in a gap, where new notes end unless it is the last.

    `tracks`: those whose notes are replaced; None for all.
    """

    def inside(onset: Any) -> Any:
        return (onset >= begins) & (onset < ends)

    added = new.notes[inside(new.notes.onset_ticks)]
    if not is_last:
        longest = LENGTHS[longest_within(ends - added.onset_ticks)]
        added = added.replace(duration_ticks=np.minimum(added.duration_ticks, longest))
    gone = inside(piece.notes.onset_ticks)
    if tracks is not None:
        gone &= np.isin(piece.notes.track, [*tracks])
    notes = Notes.concatenate([piece.notes[~gone], added])
    markers = [marker for marker in piece.markers if not inside(marker.onset_ticks)]
    markers += [marker for marker in new.markers if inside(marker.onset_ticks)]
    markers.sort(key=lambda marker: marker.onset_ticks)
    return piece.replace(notes=notes.sorted(), markers=tuple(markers))
