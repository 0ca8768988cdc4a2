"""What REMI can be asked for: a gap to be filled, an end on the tonic, and a line of chords to keep to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from tokenization.analysis.chords import QUALITIES, ROOTS, parse, says_more, tonic
from tokenization.analysis.metres import BEAT, LENGTHS
from tokenization.continuing import Script, Scripted
from tokenization.grammar import LogitBias
from tokenization.language import COUNTED, LEFT, SEAM, Goal, Language, check_gap, given_until
from tokenization.remi.grammar import (
    AFTER_BAR,
    AFTER_CHORD,
    AFTER_END,
    AFTER_METRE,
    AFTER_SUBBEAT,
    AFTER_TEMPO,
    AFTER_VOLUME,
    KIND,
    Reading,
    RemiGrammar,
)
from tokenization.remi.spelling import (
    BAR,
    BEGIN,
    CHORD,
    CHORD_INDEX,
    DURATION_IDS,
    END,
    KEYS,
    LOWEST_PITCH,
    METRE,
    SUBBEAT_IDS,
    SUBBEAT_OF,
    SUBBEAT_TICKS,
    TICKS_OF,
    VOCABULARY,
)
from tokenization.score import Marker, Notes, Score, Tempos

# How a piano piece is laid out for a goal: what is given before what is written, for prompts and for training alike.
#
# So many bars after a gap come first as bring the bars before it to the same place of the period. A countdown stands
# right after the bar token, before a metre.

LEFT_1, SEAM_1 = VOCABULARY[LEFT].start, VOCABULARY[SEAM].start
AFTER, BEFORE = VOCABULARY.id("after"), VOCABULARY.id("before")
GOAL_START = LEFT_1  # all tokens from here on belong to goals and change nothing


def ending(ids: np.ndarray, bars: int) -> np.ndarray:
    """Return a piece, or the end of one, whose last bars, COUNTED at most, count down to its end: (T,)."""
    starts = np.flatnonzero(ids == BAR)[-min(bars, COUNTED) :]
    return np.insert(ids, starts + 1, LEFT_1 + np.arange(len(starts))[::-1])


def gap(ids: np.ndarray, first: int, start: int, stop: int) -> np.ndarray:
    """Return a piece from its bar `first` on, laid out to have the bars start … stop − 1 written: (T,)."""
    ids = np.asarray(ids, dtype=np.int64)
    lines = bar_offsets(ids)
    piece = from_bar(ids[: lines[stop]], int(lines[first]))
    counted = np.flatnonzero(piece == BAR)[start - first :]
    seams = SEAM_1 + np.arange(stop - start)[::-1]
    return np.concatenate(
        [[BEGIN], beyond(ids, stop, stop - first), np.insert(piece, counted + 1, seams), [END]]
    )


def beyond(ids: np.ndarray, stop: int, bars_before: int) -> np.ndarray:
    """Return the bars of a piece from `stop` on as they are given first, so many bars standing before them: (T,)."""
    until = given_until(stop, bars_before)
    lines = bar_offsets(ids)
    there = min(until, len(lines) - 1)
    later = ids[:0]
    if there > stop:
        later = from_bar(ids[: lines[there]], int(lines[stop]))
    silent = np.full(until - there, BAR)
    return np.concatenate([[AFTER], later, silent, [BEFORE]])


def bar_offsets(ids: np.ndarray) -> np.ndarray:
    """Return where each bar starts in the tokens of a piece, and the last one ends: (bars + 1,)."""
    return np.append(np.flatnonzero(ids == BAR), len(ids) - (len(ids) > 0 and ids[-1] == END))


def from_bar(ids: np.ndarray, offset: int) -> np.ndarray:
    """Return a piece's ids from a bar on, as they would be spelled if it began there, without a begin token."""
    rest = ids[offset:]
    named = METRE.holds(rest[1:2]).any()
    metre = rest[1:2] if named else ids[:offset][METRE.holds(ids[:offset])][-1:]
    metre = metre[metre != METRE.start]  # 4/4 need not be said
    return np.concatenate([rest[:1], metre, rest[1 + int(named) :]])


def plain(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without what a goal added to it: countdowns, and bars that were given beforehand."""
    ids = np.asarray(ids, dtype=np.int64)
    given = np.flatnonzero(ids == BEFORE)
    if len(given):
        ids = np.concatenate([ids[:1], ids[given[-1] + 1 :]])
    return ids[ids < GOAL_START]


# The rules of a gap in a piano piece: its bars keep their metres, and its notes end before a given one is struck.

FAR_TICKS = np.iinfo(np.int64).max // 2


class GapGrammar(RemiGrammar):
    """What may follow in a gap that begins with bar `start`; before it, what may in any piece."""

    def __init__(self, start: int, metres: np.ndarray, free_until: np.ndarray) -> None:
        """Take the metre of each bar of the gap, and the tick at which each key is struck after it: (88,)."""
        super().__init__()
        self._start = np.full(1, start)
        self._metres = metres[None]
        self._free_until = free_until[None]

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        mask = super().allowed()
        bar = self._bars - 1 - self._start
        kind = self.kind
        for row in np.flatnonzero((bar >= 0) & np.isin(kind, (AFTER_BAR, AFTER_VOLUME))):
            if kind[row] == AFTER_VOLUME:
                room = self._free_until[row, self._key[row]] - self._now()[row]
                mask[row, DURATION_IDS] &= TICKS_OF[DURATION_IDS] <= room
            elif bar[row] < self._metres.shape[1]:
                metre = self._metres[row, bar[row]]
                if metre == self._metre[row]:
                    mask[row] &= KIND != AFTER_METRE
                else:
                    mask[row] = False
                    mask[row, METRE.start + metre] = True
        return mask


def infilling(
    language: Language,
    /,
    ids: np.ndarray,
    start: int,
    stop: int,
    *,
    longest_ticks: Sequence[int] | None = None,
    plan: object = None,
) -> Goal:
    """Return the goal to write the bars start … stop − 1 of a piece anew; every note outside stays.

    No note is longer than a token can say, whatever `longest_ticks` is.
    """
    ids = np.asarray(ids, dtype=np.int64)
    lines = bar_offsets(ids)
    bars = len(lines) - 1
    check_gap(start, stop, bars)
    piece, reading = language.decode(ids), Reading(ids)
    edges = np.append(reading.bars.start, reading.bars.start[-1] + reading.bars.length[-1])
    line, seam = edges[[start, stop]] * SUBBEAT_TICKS
    first = beyond(ids, stop, stop)
    left = [BAR, SEAM_1 + stop - start - 1]
    prompt = np.concatenate([[BEGIN], first, ids[1 : lines[start]], left])
    script = Script.to_a_seam(language, first, start, stop)
    later = piece.notes[piece.notes.onset_ticks >= seam]
    free_until = np.full(KEYS, FAR_TICKS)
    np.minimum.at(free_until, later.pitch - LOWEST_PITCH, later.onset_ticks)
    grammar = GapGrammar(start, reading.bars.metre[start:stop], free_until)

    def whole(written: np.ndarray) -> np.ndarray:
        sequence = plain(written)
        new = language.decode(sequence[sequence != END])
        joined = _joined(piece, new, int(line), int(seam))
        return language.encode(joined).ids if len(joined.notes) else ids[:1]  # all notes were there

    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, language, script, may_end_silent=True),
        whole=whole,
        elsewhere=_from(ids, lines, given_until(stop, stop)),
        replaced=ids[lines[start] + 1 : lines[stop]],
    )


def _from(ids: np.ndarray, lines: np.ndarray, bar: int) -> np.ndarray:
    """Return a piece's ids from a bar on, without its end."""
    return from_bar(ids[: lines[-1]], int(lines[bar])) if bar < len(lines) - 1 else ids[:0]


def _joined(piece: Score, new: Score, line: int, seam: int) -> Score:
    """Return a piece with what is new between two times, and all else as it was."""

    def within(onset_ticks: np.ndarray) -> np.ndarray:
        return (onset_ticks >= line) & (onset_ticks < seam)

    kept = piece.notes[~within(piece.notes.onset_ticks)]
    notes = Notes.concatenate([kept, new.notes[within(new.notes.onset_ticks)]]).sorted()
    back = piece.tempos[piece.tempos.onset_ticks <= seam][-1:]  # in force again at the seam
    tempos = Tempos.concatenate(
        [
            piece.tempos[piece.tempos.onset_ticks < line],
            new.tempos[within(new.tempos.onset_ticks)],
            back.replace(onset_ticks=np.full(len(back), seam)),
            piece.tempos[piece.tempos.onset_ticks > seam],
        ]
    )
    chords = [marker for marker in piece.markers if marker.onset_ticks < line]
    chords += [marker for marker in new.markers if line <= marker.onset_ticks < seam]
    chords += [
        Marker(seam, m.text) for m in [m for m in piece.markers if m.onset_ticks <= seam][-1:]
    ]
    chords += [marker for marker in piece.markers if marker.onset_ticks > seam]
    return piece.replace(notes=notes, tempos=tempos, markers=tuple(chords))


# An end that is asked for: the last bar has a bias towards the chord of the key's tonic (tokenization/grammar.py).
#
# A countdown makes the last bars thinner and their notes longer, and moved the harmony little: over the last chords
# of songs a model put a quarter of its chances on the tonic, where nearly half of them are on it. The key is that
# of all there is when the last bar begins: what was given may be in another.

OTHER, TONIC, NO_CHORD = 1, 2, 3  # kinds of chords
WEIGHTS = {
    TONIC: 1.1,
    NO_CHORD: 1.5,
}
LOUD = 4.0  # by which drawn ends are on the tonic as often as songs


def chord_kinds(root: int) -> np.ndarray:
    """Return the kind of each chord in a key with this tonic: (133,)."""
    kinds = np.full(len(CHORD), OTHER)
    first = root * len(QUALITIES)
    kinds[first : first + len(QUALITIES)] = TONIC
    kinds[len(ROOTS) * len(QUALITIES) :] = NO_CHORD
    return kinds


def toward_tonic(
    played: Notes, anew: Callable[[np.ndarray], LogitBias | None] | None = None
) -> LogitBias:
    """Return how the chords of the last bar lean after some notes; `anew` of all that is heard by then."""
    goal, kind = np.zeros((2, len(VOCABULARY)), np.int64)
    goal[LEFT_1] = 1
    kind[CHORD.start : CHORD.stop] = chord_kinds(tonic(played.pitch, played.duration_ticks))
    weights = np.zeros((2, 4))
    for name, weight in WEIGHTS.items():
        weights[1, name] = LOUD * weight
    return LogitBias(goal=goal, kind=kind, group=np.zeros(4, np.int64), weights=weights, anew=anew)


# A line of chords that music keeps to: read from text, and as the rules of pop piano.
#
# A bar stands between bars, `C | G7 | Am F | C`, of which a double one, `||`, is one; the line is repeated as often
# as the music needs. A bar without a chord, `| |`, goes on with the one before. A chord stands where its share of the
# bar begins, on a beat where there are beats enough. It needs no training: whatever a model draws that would pass the
# place of a chord, it goes to that place instead, and there the chord is the only one to choose. Between these places
# no other chord is named.
#
# Letters: B rows of a batch, M chords a bar at most, N bars of the line.

MOST = 4  # chords a bar
NONE = -1


def read_chords(text: str) -> list[list[str]]:
    """Return the chords of each bar of a line, as the vocabulary names them; what is none raises ValueError."""
    single = re.sub(r"\|+", "|", text.strip())
    bars = single.removeprefix("|").removesuffix("|").split("|")
    line = []
    for number, bar in enumerate(bars, 1):
        names = bar.split()
        chords = [parse(name) for name in names]
        if None in chords:
            raise ValueError(
                f"{names[chords.index(None)]!r} in bar {number} of the chords is no chord; "
                "C, Am7, F#m7b5, Bbsus4 and N would be read"
            )
        if len(chords) > MOST:
            raise ValueError(
                f"bar {number} of the chords has {len(chords)}; a bar takes {MOST} at most"
            )
        line.append([chord for chord in chords if chord is not None])
    if not any(line):
        raise ValueError(
            "the line of chords names none; one such as 'C | G7 | Am F | C' would be read"
        )
    return line


def simplified(text: str) -> list[str]:
    """Return a remark on the chords of a line of which less is kept to than they say; none where all is."""
    names = [name for name in dict.fromkeys(text.replace("|", " ").split()) if says_more(name)]
    taken = ", ".join(f"{name} as {parse(name)}" for name in names)
    return [f"Basses and extensions of chords are left out: {taken}."] if names else []


def _places() -> np.ndarray:
    """Return where each of so many chords stands in a bar of each metre: (M + 1, metres, M) sub-beats."""
    places = np.zeros((MOST + 1, len(LENGTHS), MOST), dtype=np.int64)
    for count in range(1, MOST + 1):
        share = np.arange(count) * LENGTHS[:, None] / count
        on_beat = np.rint(share / BEAT[:, None]) * BEAT[:, None]
        enough = (count * BEAT <= LENGTHS)[:, None]
        places[count, :, :count] = np.where(enough, on_beat, np.floor(share))
    return places


PLACES = _places()


class ChordLine(RemiGrammar):
    """What may follow where a line of chords is kept to from a bar on."""

    def __init__(self, line: list[list[str]], start: int, size: int) -> None:
        """Stand at the start of one sequence of a vocabulary's size; the line begins with bar `start`, from 0."""
        super().__init__(size)
        chords = np.full((len(line), MOST), NONE)
        for bar, names in enumerate(line):
            chords[bar, : len(names)] = [CHORD.start + CHORD_INDEX[name] for name in names]
        self._line = _Line(chords)
        self._start = start
        self._done = np.zeros(1, dtype=np.int64)  # chords of the bar that stand already

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next: (B, V) bool."""
        plain = super().allowed()
        mask = plain.copy()
        place, chord = self._due()
        inside = self._inside()
        mask[inside, CHORD.start : CHORD.stop] = False
        at = (place == self.subbeat) & np.isin(self.kind, (AFTER_SUBBEAT, AFTER_TEMPO))
        for row in np.flatnonzero(at):
            mask[row] &= KIND[: mask.shape[1]] == AFTER_TEMPO
            mask[row, chord[row]] = plain[row, chord[row]]
        stuck = ~mask.any(axis=1)  # where every key sounds, a chord is the only way on
        mask[stuck] = plain[stuck]
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        """Return tokens; of one that would pass the place of a chord, the way there."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind, (place, _) = KIND[tokens], self._due()
        passes = (kind == AFTER_BAR) | (kind == AFTER_END)
        passes |= (kind == AFTER_SUBBEAT) & (SUBBEAT_OF[tokens] > place)
        rows = np.flatnonzero(passes & (place != NONE) & (self.kind != AFTER_END))
        if not len(rows):
            return tokens
        there = SUBBEAT_IDS[np.maximum(place, 0)]
        taken = tokens.copy()
        can = self.allowed()[rows, there[rows]]
        taken[rows[can]] = there[rows[can]]
        return taken

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        super().advance(tokens)
        kind = KIND[np.asarray(tokens, dtype=np.int64)]
        named = (kind == AFTER_CHORD) & self._inside()
        self._done = np.where(kind == AFTER_BAR, 0, self._done + named)
        for _ in range(MOST):  # what sounds already need not be named
            _, chord = self._due()
            self._done = self._done + ((chord != NONE) & (chord == self._chord))

    def _inside(self) -> np.ndarray:
        """Say which rows are in a bar of the line."""
        return self._bars > self._start

    def _due(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the place and the token of the chord that comes next in each row's bar, or NONE: (B,) each."""
        chords = self._line.chords[(self._bars - 1 - self._start) % len(self._line.chords)]
        done = np.minimum(self._done, MOST - 1)[:, None]
        chord = np.take_along_axis(chords, done, axis=1)[:, 0]
        chord = np.where(self._inside() & (self._done < MOST), chord, NONE)
        count = (chords != NONE).sum(axis=1)
        return np.where(chord == NONE, NONE, PLACES[count, self._metre, done[:, 0]]), chord


class _Line:
    """The chords of each bar by token, NONE past the last of a bar: (N, M); not a row of a batch."""

    def __init__(self, chords: np.ndarray) -> None:
        self.chords = chords
