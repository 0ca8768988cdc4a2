"""Goals of the ensemble language: bars rewritten, and parts written to others, with a plan if one is wanted."""

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
    beyond,
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
from tokenization.language import COUNTED, Goal, Language, check_gap, given_until
from tokenization.score import Notes, Score
from tokenization.wording import listed

THINNER = 2  # levels of density by which the last bar is asked to be below the middle one


class Goals(Language):
    """Grammars by which music goes on, and the goals that it can be given."""

    def infilling(
        self,
        ids: np.ndarray,
        start: int,
        stop: int,
        *,
        plan: Plan | None = None,
    ) -> Goal:
        """Return the goal to rewrite the bars start … stop − 1 of a piece; every note outside stays."""
        ids = plain(ids)
        lines = bar_offsets(ids)
        bars = len(lines) - 1
        check_gap(start, stop, bars)
        reading = Reading(ids)
        metres = _metre_tokens(reading)
        said = _plan_tokens(plan, bars)
        later, head = beyond(ids, stop, stop), body_start(ids)
        seams = [[SEAM_1 + stop - 1 - bar, *said[bar], *metres[bar]] for bar in range(start, stop)]
        prompt = np.concatenate([ids[:head], later, ids[head : lines[start]], [BAR], seams[0]])
        script = Script.around([later.tolist(), *[[]] * (stop - 1)], [*[[]] * start, *seams])
        grammar = EnsembleGrammar(metres=False, given_bars=start)
        piece = self.decode(ids)
        line = int(reading.bars.start[start]) * STEPS_PER_SUBBEAT
        seam = int(reading.bars.start[stop - 1] + reading.bars.length[stop - 1]) * STEPS_PER_SUBBEAT

        def inside(notes: Notes) -> np.ndarray:
            return (notes.onset_ticks >= line) & (notes.onset_ticks < seam)

        def whole(written: np.ndarray) -> np.ndarray:
            new = self.decode(written)
            kept = piece.notes[~inside(piece.notes)]
            markers = [m for m in piece.markers if not line <= m.onset_ticks < seam]
            markers += [m for m in new.markers if line <= m.onset_ticks < seam]
            notes = Notes.concatenate([kept, new.notes[inside(new.notes)]])
            markers = tuple(sorted(markers, key=lambda marker: marker.onset_ticks))
            return self._spelled(piece.replace(notes=notes.sorted(), markers=markers), ids)

        return Goal(
            prompt=prompt,
            grammar=Scripted(grammar, script, may_end_silent=True),
            whole=whole,
            elsewhere=ids[lines[min(given_until(stop, stop), bars)] : lines[-1]],
            replaced=ids[lines[start] : lines[stop]],
        )

    def accompanying(
        self,
        ids: np.ndarray,
        write: Collection[str],
        *,
        plan: Plan | None = None,
    ) -> Goal:
        """Return the goal to write some parts to the others of a piece, which stay note for note.

        `write` names instruments, or `chords`; a part of the piece that has such a name is replaced, any other is new.
        The new parts come after those that there were, and play in every bar in which one of those does, unless the
        plan says how many play.
        """
        ids = plain(ids)
        reading = Reading(ids)
        existing, added = _named(reading.parts, write)
        given = [part for part in range(len(reading.parts)) if part not in existing]
        if not any(reading.parts[part] != HARMONY for part in given):
            raise ValueError(
                f"there is nothing to write {listed(list(write))} to: the piece has no other part"
            )
        if len(reading.parts) + len(added) > MOST_PARTS:
            raise ValueError(
                f"the piece would have {len(reading.parts) + len(added)} parts; {MOST_PARTS} can be written"
            )
        bars = len(reading.bars)
        kept = with_parts(ids, given)
        lines = bar_offsets(kept)
        order = np.concatenate([reading.parts[given], reading.parts[existing], added]).astype(
            np.int64
        )
        new = int((order[len(given) :] != HARMONY).sum())
        playing = plan_of(Reading(kept).sheet())["players"]
        everyone = np.where(playing >= 0, np.minimum(playing + new, PLAYERS - 1), NO_LEVEL)
        said = _plan_tokens({"players": everyone, **(plan or {})}, bars)
        header = np.concatenate([kept[: int(np.argmax(PART.holds(kept)))], declared(order)])
        after = [
            [*said[bar], *kept[lines[bar] + 1 : lines[bar + 1]].tolist()] for bar in range(bars)
        ]
        script = Script.around([[]] * bars, after)
        written = range(len(given), len(order))
        plays = "players" not in (plan or {})
        grammar = EnsembleGrammar(write=written, metres=False, plays=plays)
        piece = self.decode(ids)
        # Tracks are parts but for the chords; of the whole piece, the new ones come last.
        of_track = [part for part in range(len(reading.parts)) if reading.parts[part] != HARMONY]
        target = _targets(order, [*given, *existing], of_track)

        def whole(sequence: np.ndarray) -> np.ndarray:
            new = self.decode(sequence)
            return self._spelled(_joined(piece, new, target, len(given), order), ids)

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
        longest_ticks: Sequence[int] | None = None,
    ) -> Grammar:
        """Return the grammar by which a prompt goes on: freely, or for so many bars as they are asked to be.

        These, of which the prompt has begun the first, keep to the chords of each bar, over and over, and to a plan;
        `ends` counts down to the last of them.
        """
        if not ends and chords is None and plan is None:
            return EnsembleGrammar(given_bars=prompt_bars)
        prompt = np.asarray(prompt)
        reading = Reading(plain(prompt))
        before = max(len(reading.bars) - 1, 0)
        said, on_tonic = _plan_tokens(plan, bars), False
        if chords is not None and HARMONY not in reading.parts:
            lacks = (
                "this prompt has none" if before else "from nothing, name its style or instruments"
            )
            raise ValueError(f"over given chords a piece goes on that has pitched notes; {lacks}")
        metre = int(reading.bars.metre[-1]) if len(reading.bars) else FOUR_FOUR
        if ends:
            sheet = reading.sheet()
            said[-1] = _thin(sheet, plan, bars)
            pitched = sheet.parts[1:] < PITCHED
            on_tonic = chords is None and bool(pitched.any()) and sheet.parts[0] == HARMONY
            if on_tonic:
                # A piece from nothing may have been asked to be in a key; a prompt only says which it begins in.
                keys = prompt[KEY.holds(prompt)] - KEY.start
                asked = len(keys) > 0 and not before
                said[-1] += [HARMONY_ID, AT.start, int(TONICS[keys[0]]) if asked else TONIC]
        opening = prompt[bar_offsets(prompt)[-2] + 1 :].tolist() if len(reading.bars) else []
        after = [
            [*([LEFT_1 + left - 1] if ends and left <= COUNTED else []), *tokens]
            for left, tokens in zip(range(bars, 0, -1), said, strict=True)
        ]
        # A piece from nothing may have said what its first bar is like.
        after[0] = opening or after[0]
        if chords is not None:
            after = [
                [*a, *_chord_tokens(chords[bar % len(chords)], metre)]
                for bar, a in enumerate(after)
            ]
        # What stops the music that does not end is its length.
        after += [] if ends else [[]]
        script = Script.around([[]] * (before + len(after)), [*[[]] * before, *after])
        write = None if chords is None else np.flatnonzero(reading.parts != HARMONY)
        free = EnsembleGrammar(write=write, metres=chords is None, given_bars=before)
        return Scripted(free, script, on_tonic=on_tonic)

    def _spelled(self, score: Score, ids: np.ndarray) -> np.ndarray:
        return self.encode(score).ids if len(score.notes) else ids[:1]


def _chord_tokens(chords: Sequence[str], metre: int) -> list[int]:
    """Return the chords of a bar, each as long as the others."""
    steps, ids = int(METRE_STEPS[metre]), []
    for number, chord in enumerate(chords):
        if not number or chord != chords[number - 1]:
            at = AT.start + number * steps // len(chords)
            ids += [at, CHORD.start + CHORDS.index(chord)]
    return [HARMONY_ID, *ids]


def _thin(sheet: Sheet, plan: Plan | None, bars: int) -> list[int]:
    """Return what the last of some bars is asked to be: thinner than most bars before, and as the plan says."""
    own = plan_of(sheet)["density"] if len(sheet.bars) else np.zeros(0)
    thin = max(int(np.median(own[own > 0])) - THINNER, 1) if (own > 0).any() else NO_LEVEL
    asked = {name: levels for name, levels in (plan or {}).items() if levels[bars - 1] >= 0}
    return _plan_tokens({"density": np.full(bars, thin), **asked}, bars)[-1]


def _named(parts: np.ndarray, write: Collection[str]) -> tuple[list[int], list[int]]:
    """Return which parts of a piece some names mean, and the instruments of those that it has not."""
    if not write:
        raise ValueError("no part is named; name an instrument to write, such as piano or drums")
    labels = names_of(parts)
    existing, added = [], []
    for name in dict.fromkeys(write):
        label = label_of(name)
        meant = (label,) if label in labels else instruments(name)
        if there := [index for index, each in enumerate(labels) if each in meant]:
            existing.append(there[0])
        else:
            added.append(PART_NAMES.index(meant[0]))
    return sorted(existing), added


def names_of(parts: np.ndarray) -> list[str]:
    """Return the names of parts, by their instruments."""
    return [
        PART_NAMES[part] + (f"_{voice}" if voice > 1 else "")
        for part, voice in zip(parts.tolist(), voices_of(parts).tolist(), strict=True)
    ]


def _targets(order: np.ndarray, old: list[int], of_track: list[int]) -> dict[int, int]:
    """Return the track of each part in the order of writing: its old one, or after all others."""
    target, after = {}, count(len(of_track))
    for number, instrument in enumerate(order.tolist()):
        if instrument != HARMONY:
            is_old = number < len(old)
            target[number] = of_track.index(old[number]) if is_old else next(after)
    return target


def _joined(
    piece: Score, new: Score, target: dict[int, int], given: int, order: np.ndarray
) -> Score:
    """Return a piece with parts replaced by written ones, and others added."""
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
    """Return what each bar says of its metre: a token where it changes."""
    metres = [FOUR_FOUR, *reading.bars.metre.tolist()]
    return [[METRE.start + now] if now != last else [] for last, now in pairwise(metres)]


def _plan_tokens(plan: Plan | None, bars: int) -> list[list[int]]:
    """Return what is asked of each bar, in the order of a plan's families."""
    asked: list[list[int]] = [[] for _ in range(bars)]
    for name in PLAN:
        for bar, level in enumerate([] if plan is None else plan.get(name, [])[:bars]):
            if level >= 0:
                asked[bar].append(VOCABULARY[name].start + int(level))
    return asked
