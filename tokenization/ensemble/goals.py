"""Goals of the ensemble language: fill a gap, accompany given parts, continue to an end, each with an optional plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tokenization.analysis.chords import CHORDS
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.grammar import TONICS, EnsembleGrammar
from tokenization.ensemble.plan import NO_LEVEL, Plan, plan_of, tokens_by_bar
from tokenization.ensemble.promises import promises_of
from tokenization.ensemble.script import TONIC, Script, Scripted
from tokenization.ensemble.sequences import (
    bar_offsets,
    bars_after_gap,
    decoded,
    plain,
    with_parts,
)
from tokenization.ensemble.spelling import Reading, Sheet, declared, names_of, sheet_of, spell
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
from tokenization.language import COUNTED, Goal, check_gap, suffix_stop
from tokenization.score import Notes, Score
from tokenization.wording import listed

Chords = Sequence[Sequence[str]]  # of each bar
THINNER = 2  # density levels of the last bar below the median


def infilling(
    ids: np.ndarray, start: int, stop: int, plan: Plan | None, *, free: bool = False
) -> Goal:
    """Return the goal to rewrite the bars start … stop − 1 of a piece; all other notes stay.

    New notes end with these bars, so that they do not sound over the next ones. With `free`, parts keep no promises.
    """
    ids = plain(ids)
    offsets = bar_offsets(ids)
    bars = len(offsets) - 1
    check_gap(start, stop, bars)
    reading = Reading(ids)
    metres = pairwise([FOUR_FOUR, *reading.bars.metre.tolist()])
    changes = [[METRE.start + now] if now != last else [] for last, now in metres]
    planned = tokens_by_bar(plan, bars)
    suffix, head = bars_after_gap(ids, stop), offsets[0]
    gap = [[SEAM_1 + stop - 1 - bar, *planned[bar], *changes[bar]] for bar in range(start, stop)]
    prompt = np.concatenate([ids[:head], suffix, ids[head : offsets[start]], [BAR], gap[0]])
    script = Script.around([suffix.tolist(), *[[]] * (stop - 1)], [*[[]] * start, *gap])
    promises = None if free else promises_of(reading.parts, reading.sheet())
    grammar = EnsembleGrammar(metres=False, given_bars=start, promises=promises)
    piece = decoded(ids)
    lines = np.append(0, np.cumsum(reading.bars.length)) * STEPS_PER_SUBBEAT
    begins, ends = lines[[start, stop]].tolist()

    def whole(written: np.ndarray) -> np.ndarray:
        return _encoded(_filled(piece, decoded(written), begins, ends, is_last=stop == bars), ids)

    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, script, may_end_silent=True),
        whole=whole,
        elsewhere=ids[offsets[min(suffix_stop(stop), bars)] : offsets[-1]],
        replaced=ids[offsets[start] : offsets[stop]],
    )


def accompanying(
    ids: np.ndarray, write: Collection[str], plan: Plan | None, *, free: bool = False
) -> Goal:
    """Return the goal to write parts that go with the others of a piece, which stay unchanged.

    `write` names instruments, or `chords`. A part of the piece with such a name is replaced; otherwise a part is
    added, after all others. The written parts play in every bar in which another part plays, unless the plan sets
    the number of parts that play. With `free`, parts keep no promises.
    """
    ids = plain(ids)
    reading = Reading(ids)
    existing, added = _named(reading.parts, write)
    given = [part for part in range(len(reading.parts)) if part not in existing]
    if not any(reading.parts[part] != HARMONY for part in given):
        raise ValueError(f"the piece has no other part that {listed(list(write))} could accompany")
    if len(reading.parts) + len(added) > MOST_PARTS:
        raise ValueError(
            f"the piece would have {len(reading.parts) + len(added)} parts; the limit is {MOST_PARTS}"
        )
    bars = len(reading.bars)
    kept = with_parts(ids, given)
    offsets = bar_offsets(kept)
    parts = np.concatenate([reading.parts, added]).astype(np.int64)
    order = [*given, *existing, *range(len(reading.parts), len(parts))]  # of the parts
    written, sounds = np.arange(len(order)) >= len(given), parts[order] != HARMONY
    new = int((written & sounds).sum())
    playing = plan_of(Reading(kept).sheet())["players"]
    everyone = np.where(playing >= 0, np.minimum(playing + new, PLAYERS - 1), NO_LEVEL)
    planned = tokens_by_bar({"players": everyone, **(plan or {})}, bars)
    header = np.concatenate([kept[: int(np.argmax(PART.holds(kept)))], declared(parts[order])])
    after = [
        [*planned[bar], *kept[offsets[bar] + 1 : offsets[bar + 1]].tolist()] for bar in range(bars)
    ]
    script = Script.around([[]] * bars, after)
    promises = None if free else promises_of(parts, reading.sheet()).of(order)
    grammar = EnsembleGrammar(
        write=np.flatnonzero(written),
        metres=False,
        plays="players" not in (plan or {}),
        promises=promises,
    )
    piece = decoded(ids)
    # Every part except the chords has a track. New tracks follow those of the piece.
    track = (np.cumsum(parts != HARMONY) - 1)[order]
    writes_chords = bool((written & ~sounds).any())

    def whole(sequence: np.ndarray) -> np.ndarray:
        joined = _joined(piece, decoded(sequence), track[sounds], written[sounds])
        return _encoded(joined if writes_chords else joined.replace(markers=piece.markers), ids)

    return Goal(
        prompt=np.concatenate([header, [BAR], after[0]]).astype(np.int64),
        grammar=Scripted(grammar, script, may_end_silent=True),
        whole=whole,
        tracks=tuple(track[written & sounds].tolist()),
        writes_chords=writes_chords,
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
            # The prompt has the key that the file states or a new piece is to have, else that of its beginning.
            keys = prompt[KEY.holds(prompt)] - KEY.start
            requested = len(keys) > 0 and not (before and free)
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
    )  # fmt: skip
    return Scripted(inner, script, on_tonic=on_tonic, holds=ends, bass=_bass(sheet))


MOST_REST = 4  # bars in which a part of a new piece can rest


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
    steps, ids = int(METRE_STEPS[metre]), []
    for number, chord in enumerate(chords):
        if not number or chord != chords[number - 1]:
            at = AT.start + number * steps // len(chords)
            ids += [at, CHORD.start + CHORDS.index(chord)]
    return [HARMONY_ID, *ids]


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
        found["players"] = np.full(bars, plan_of(sheet)["players"][-2:].max())
    return tokens_by_bar({**found, **asked}, bars)[-1]


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


def _encoded(score: Score, ids: np.ndarray) -> np.ndarray:
    return spell(sheet_of(score)[0]).astype(np.uint16) if len(score.notes) else ids[:1]


def _filled(piece: Score, new: Score, begins: int, ends: int, is_last: bool) -> Score:
    """Return a piece with the notes and chords of another one in a gap, where new notes end unless it is the last."""

    def inside(onset: Any) -> Any:
        return (onset >= begins) & (onset < ends)

    added = new.notes[inside(new.notes.onset_ticks)]
    if not is_last:
        longest = LENGTHS[longest_within(ends - added.onset_ticks)]
        added = added.replace(duration_ticks=np.minimum(added.duration_ticks, longest))
    notes = Notes.concatenate([piece.notes[~inside(piece.notes.onset_ticks)], added])
    markers = [marker for marker in piece.markers if not inside(marker.onset_ticks)]
    markers += [marker for marker in new.markers if inside(marker.onset_ticks)]
    markers.sort(key=lambda marker: marker.onset_ticks)
    return piece.replace(notes=notes.sorted(), markers=tuple(markers))


def _joined(piece: Score, new: Score, track: np.ndarray, written: np.ndarray) -> Score:
    """Return a piece with the written tracks of a new one, which replace its own or are added, and the new chords.

    `track` is the track of the piece for each one of the new piece, and `written` whether that is written.
    """
    notes = new.notes
    notes = notes.replace(track=track[notes.track])[written[notes.track]]
    kept = piece.notes[~np.isin(piece.notes.track, track[written])]
    tracks = [*piece.tracks] + [None] * (len(track) - len(piece.tracks))
    for number, its in zip(track.tolist(), new.tracks, strict=True):
        tracks[number] = tracks[number] or its
    notes = Notes.concatenate([kept, notes]).sorted()
    return piece.replace(notes=notes, tracks=tuple(tracks), markers=new.markers)
