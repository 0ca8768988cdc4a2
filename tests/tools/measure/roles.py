"""Measures what bands keep of what is given: python -m tests.tools.measure.roles TABLE --files FILE … --data SET …

Each number has a 95 % interval (over takes; of counts, Wilson's) and n. The tables:

roles    16 new bars after the last 16 given ones, of own bands, of files, and of pieces of prepared sets. Shares of
         parts: with half to double their notes a bar, and silent. Mean Jaccard index of the onsets of parts that moved
         together (`TOGETHER` before). Of the drums, hits in the last of eight bars that other bars lack, to those
         given. Bars of twelve-bar forms whose chord has the root of the bar twelve before. Of the same takes, as given
         and as written: the shares of the commonest velocity, of notes that last to the next one, and of bars with a
         pedal; of the highest part, its range in semitones and leaps of a fifth or more; of parts with chords, bars
         that go as deep as three of four given ones, and onsets with more notes than any given one. Onsets of parts
         that doubled another in which both have the same notes, octaves apart or not. A piece of a set is read at the
         grid of its language, which rounds velocities and lengths on both sides.
plan     The home key kept: of pieces, without a plan, and with a drawn curve of density, register and loudness.
nothing  Pieces from nothing: key as asked and metre kept, notes in the fifth beat of 5/4 for one in its second to
         fourth, chords in winds and notes out of range; of pop, the bars that return and that repeat a bar exactly
         among the first 32 and 64, and the entropy of lengths, next to the sets, whose pieces return more the longer
         they last.

`real` is how the pieces themselves go on. With `--free`, parts keep neither promises nor habits.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app import output
from evaluation.metrics.estimates import estimate, mean
from evaluation.metrics.form import between, form, tops
from evaluation.study.piece_jobs import Choice, draw_pieces
from musicgen.continuation import Continuation, run_together
from musicgen.generation.request import Request
from musicgen.pieces import Piece, empty_prompt
from musicgen.playable import Playable, load
from tests.tools.measure.bands import big_band, organ_blues
from tests.tools.options import options
from tests.tools.page.own_files import own_files
from tokenization.analysis.chords import ROOTS, named
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.shares import commonest, entropy
from tokenization.ensemble.beginning import key_of
from tokenization.ensemble.promises import HIGHEST, IS_SINGLE, LOWEST
from tokenization.ensemble.spelling import instrument_of
from tokenization.formats import read_file
from tokenization.score import Notes, Score

BARS = 16
FEWEST = 8  # notes of a given part that is judged
TOGETHER = 0.8  # Jaccard index of the onsets of parts that move together
OWN = ("pop band", "12/8 blues", "swing", "ten tracks", "everything", "piano solo")
EXAMPLES = Path("app/examples")
FIFTH = 7  # semitones
Sides = tuple[float | None, float | None]  # as given, as written
Found = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class Music:
    """A score with the lines of its given bars and of those that follow."""

    score: Score
    given: int  # bars
    bars: int = BARS

    def notes(self, written: bool, track: int | None = None) -> Notes:
        """Return the notes of the last given bars, or of the new ones."""
        lines, notes = bar_lines(self.score, self.given + self.bars), self.score.notes
        first = self.given if written else max(0, self.given - BARS)
        stop = self.given + self.bars if written else self.given
        own = (notes.onset_ticks >= lines[first]) & (notes.onset_ticks < lines[stop])
        return notes[own & ((notes.track == track) | (track is None))]

    def length(self, written: bool) -> int:
        return self.bars if written else min(self.given, BARS)

    def hits(self, written: bool, track: int) -> list[set[tuple[int, int]]]:
        """Return the sixteenths and pitches of each bar."""
        lines = bar_lines(self.score, self.given + self.bars)
        notes = self.notes(written, track)
        first = self.given if written else max(0, self.given - BARS)
        half = self.score.ticks_per_beat // 8  # of a sixteenth: hits are a little early or late
        found: list[set[tuple[int, int]]] = [set() for _ in range(self.length(written))]
        onset = notes.onset_ticks + half
        bar = np.searchsorted(lines, onset, side="right") - 1
        place = (onset - lines[bar]) * 4 // self.score.ticks_per_beat
        for number, *hit in zip(bar.tolist(), place.tolist(), notes.pitch.tolist(), strict=True):
            if number - first < len(found):  # not before the next bar
                found[number - first].add(tuple(hit))
        return found


def roles(music: Music, found: Found) -> None:
    """Add what parts, blocks and drums keep."""
    onsets: list[tuple[set[int], set[int]]] = []
    for track, about in enumerate(music.score.tracks):
        before, after = (music.notes(written, track) for written in (False, True))
        if len(before) < FEWEST:
            continue
        rate = (len(after) / music.length(True)) / (len(before) / music.length(False))
        found["within ½–2"].append(0.5 <= rate <= 2)
        found["silent"].append(not len(after))
        if about.is_drum:
            found["fills"].append(fills(music, track))
        else:
            times = ({*notes.onset_ticks.tolist()} for notes in (before, after))
            onsets.append((next(times), next(times)))
    for number, (before, after) in enumerate(onsets):
        for other_before, other_after in onsets[:number]:
            if jaccard(before, other_before) >= TOGETHER and after | other_after:
                found["blocks"].append(jaccard(after, other_after))


def jaccard(some: set[int], others: set[int]) -> float:
    return len(some & others) / max(len(some | others), 1)


def fills(music: Music, track: int) -> float | None:
    """Return the hits of new fills to those of given ones; None if the given last bars of eight are like others."""
    found: list[list[int]] = [[], []]
    for written in (False, True):
        bars = music.hits(written, track)
        first = 0 if written else -music.length(False) % 8
        start = (music.given - music.length(False)) % 8 if not written else music.given % 8
        usual = [bar for number, bar in enumerate(bars) if (number + start) % 4 != 3]
        common = {
            hit for bar in usual for hit in bar if 2 * sum(hit in b for b in usual) >= len(usual)
        }
        ends = [
            bar for number, bar in enumerate(bars) if (number + start) % 8 == 7 and number >= first
        ]
        found[written] = [len(bar - common) for bar in ends]
    if not found[0] or not found[1] or mean(found[0]) < 3:
        return None
    return mean(found[1]) / mean(found[0])


def sound(music: Music, found: Found) -> None:
    """Add how loud and how long notes are, and how the melody moves."""
    for track, about in enumerate(music.score.tracks):
        both = [music.notes(written, track) for written in (False, True)]
        if len(both[0]) < FEWEST or len(both[1]) < FEWEST:
            continue
        found["commonest velocity"].append(tuple(commonest(notes.velocity) for notes in both))
        if not about.is_drum:
            found["full length"].append(tuple(full(notes) for notes in both))
            if (pedals := pedalled(music, track))[0]:
                found["pedal"].append(pedals)
    heights = {
        track: float(np.mean(music.notes(False, track).pitch))
        for track, about in enumerate(music.score.tracks)
        if not about.is_drum and len(music.notes(False, track)) >= FEWEST
    }
    if heights:
        tune = max(heights, key=lambda track: heights[track])
        both = [tops(music.notes(written, tune)) for written in (False, True)]
        if len(both[1]) >= FEWEST:
            found["melody's range"].append(tuple(float(np.ptp(pitch)) for pitch in both))
            found["leaps"].append(tuple(float((np.abs(np.diff(p)) >= FIFTH).mean()) for p in both))


def texture(music: Music, found: Found) -> None:
    """Add how deep and how full the chords of parts are, and which parts go on to double another."""
    lines = bar_lines(music.score, music.given + music.bars)
    chords: list[list[dict[int, list[int]]]] = []  # by onset, as given and as written, of each part
    for track, about in enumerate(music.score.tracks):
        both = [music.notes(written, track) for written in (False, True)]
        if about.is_drum or len(both[0]) < FEWEST:
            continue
        chords.append([by_onset(notes) for notes in both])
        sizes = [[len({*chord}) for chord in one.values()] for one in chords[-1]]
        if max(sizes[0]) == 1 or not sizes[1]:
            continue
        lows = [lowest(one, lines) for one in chords[-1]]
        depth = float(np.quantile(lows[0], 0.75)) + 2
        found["deep"].append(tuple(float((low <= depth).mean()) for low in lows))
        more = [float((np.array(size) > max(sizes[0])).mean()) for size in sizes]
        found["fuller"].append(tuple(more))
    for number, (before, after) in enumerate(chords):
        for other_before, other_after in chords[:number]:
            alike = doubled(before, other_before)
            if alike >= TOGETHER and after.keys() | other_after.keys():
                found["doubled"].append((alike, doubled(after, other_after)))
                break


def by_onset(notes: Notes) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for onset, pitch in zip(notes.onset_ticks.tolist(), notes.pitch.tolist(), strict=True):
        found.setdefault(onset, []).append(pitch)
    return found


def lowest(chords: Mapping[int, list[int]], lines: np.ndarray) -> np.ndarray:
    """Return the lowest pitch of each bar that has notes."""
    found: dict[int, int] = {}
    for onset, chord in chords.items():
        bar = int(np.searchsorted(lines, onset, side="right"))
        found[bar] = min(found.get(bar, 127), *chord)
    return np.array([*found.values()])


def doubled(some: Mapping[int, list[int]], others: Mapping[int, list[int]]) -> float:
    """Return the share of all onsets of two parts in which both have the same pitch classes."""
    same = sum(
        {p % 12 for p in some[at]} == {p % 12 for p in others[at]}
        for at in some.keys() & others.keys()
    )
    return same / max(len(some.keys() | others.keys()), 1)


def full(notes: Notes) -> float:
    """Return the fraction of notes that last to the next onset of their part, or longer."""
    onsets = np.append(np.unique(notes.onset_ticks), notes.end_ticks.max(initial=0))
    following = onsets[
        np.searchsorted(onsets, notes.onset_ticks, side="right").clip(max=len(onsets) - 1)
    ]
    return float((notes.end_ticks >= following).mean())


def pedalled(music: Music, track: int) -> tuple[float, float]:
    """Return the fraction of bars in which the pedal is pressed."""
    lines, pedals = bar_lines(music.score, music.given + music.bars), music.score.pedals
    down = pedals.onset_ticks[pedals.track == track]
    bars = np.unique(np.searchsorted(lines, down, side="right") - 1)
    first, stop = max(0, music.given - BARS), music.given + music.bars
    given = ((bars >= first) & (bars < music.given)).sum() / music.length(False)
    return float(given), float(((bars >= music.given) & (bars < stop)).sum() / music.bars)


def returns_of_twelve(music: Music) -> list[bool]:
    """Return, for each new bar, whether its first chord has the root of that twelve bars before."""
    lines = bar_lines(music.score, music.given + music.bars)
    chords = [(m.onset_ticks, m.text.split("_")[0]) for m in named(music.score)]
    roots = [
        next(
            (root for at, root in reversed(chords) if at <= line + music.score.ticks_per_beat // 2),
            "N",
        )
        for line in lines[:-1].tolist()
    ]
    return [roots[bar] == roots[bar - 12] for bar in range(music.given, music.given + music.bars)]


# Pieces and takes.


def pieces(given: Namespace, model: Playable) -> Iterator[tuple[str, str, Piece, Score | None]]:
    """Yield the group, name, given piece and, if there is one, the real continuation of each piece."""
    made = own_files()
    files = {name: made[name].data for name in OWN}
    files |= {"big band": big_band(), "organ blues": organ_blues()}
    files |= {path.stem: path.read_bytes() for path in sorted(EXAMPLES.glob("trio-*.mid"))}
    if not given.without_own:
        for name, data in files.items():
            yield "own bands", name, model.read(data), None
    for path in map(Path, given.files):
        piece = model.read(path)
        yield "files", path.stem, piece, piece.score if piece.bars >= 2 * BARS else None
    for folder in given.data:
        random = np.random.default_rng(given.seed)
        choice = Choice(
            data=folder, pieces=given.pieces, split=given.split, seed=given.seed, device="cpu"
        )
        rows, order = draw_pieces(choice, random, fewest_bars=2 * BARS)
        prepared, done = choice.prepared, 0
        for row in rows[order].tolist():
            score = prepared.language.decode(np.asarray(prepared.ids(row), int))
            piece = model.read(score)
            busy = piece.prompt(BARS).score.notes
            if len(busy) and done < given.pieces:
                done += 1
                yield Path(folder).name, prepared.name(row), piece, piece.score


def continued(
    model: Playable, given: Namespace, *, plan: Any = None
) -> Iterator[tuple[str, str, Music, Score]]:
    """Yield takes as read again from their files, with the group and name of their pieces, in one batch."""
    works: list[tuple[str, str, Piece, int, Continuation]] = []
    for group, name, piece, real in pieces(given, model):
        bars = BARS if real is not None else piece.bars
        request = Request(
            bars=BARS, variations=given.takes, seed=given.seed, plan=plan, free=given.free
        )
        works.append((group, name, piece, bars, Continuation(model, piece.prompt(bars), request)))
        if real is not None and plan is None:
            yield f"{group}: real", name, Music(score=real, given=BARS), real
    for _ in run_together([work for *_, work in works]):
        pass
    for group, name, piece, bars, work in works:
        for take in work.takes():
            score = take.score
            if piece.original is not None:
                data, reason = take.file(".mid")
                assert not reason, reason
                score = read_file(data, name=name, suffix=".mid")
            yield group, name, Music(score=score, given=bars), take.score


# Tables.


def told(values: list[Any]) -> str:
    """Return a mean with its interval and n."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    is_share = isinstance(known[0], bool | np.bool_)
    found = estimate([float(value) for value in known], shares=is_share)
    interval = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{found['mean']:.2f}{interval} {found['n']}"


def print_table(head: str, found: Mapping[str, Found], columns: tuple[str, ...]) -> None:
    rows = [(head, *columns)]
    for group, values in found.items():
        cells: list[str] = []
        for column in columns:
            cell = values.get(column, [])
            both = [one for one in cell if isinstance(one, tuple)]
            cells.append(
                " → ".join(told([pair[i] for pair in both]) for i in (0, 1)) if both else told(cell)
            )
        rows.append((group, *cells))
    output.write(output.table(rows))


def print_roles(model: Playable, given: Namespace) -> None:
    found: dict[str, Found] = defaultdict(lambda: defaultdict(list))
    for group, name, music, heard in continued(model, given):
        # `sound` reads files as they are; a set has no files.
        for each in {group, *([f"  {name}"] if given.each else [])}:
            roles(music, found[each])
            sound(music, found[each])
            texture(music, found[each])
            if name in ("big band", "organ blues"):
                found[each]["twelve"] += returns_of_twelve(Music(score=heard, given=music.given))
    print_table("roles", found, ("within ½–2", "silent", "blocks", "fills", "twelve"))
    print_table(
        "sound", found, ("commonest velocity", "full length", "pedal", "melody's range", "leaps")
    )
    print_table("texture", found, ("deep", "fuller", "doubled"))


def print_plan(model: Playable, given: Namespace) -> None:
    rise = np.linspace(0, 1, BARS)
    drawn = {
        "density": (4 + 6 * rise).tolist(),
        "register": (64 + 14 * rise).tolist(),
        "loudness": (60 + 40 * rise).tolist(),
    }
    found: dict[str, Found] = defaultdict(lambda: defaultdict(list))
    for name, plan in (("alone", None), ("with a drawn plan", drawn)):
        for group, _, music, heard in continued(model, given, plan=plan):
            one = "real" if group.endswith(": real") else name
            keys = [
                key_of(model.language.sheet(model.language.encode(part).ids))
                for part in halves(heard, music)
            ]
            if None not in keys:
                found[one]["key kept"].append(keys[0] == keys[1])
                found[one]["in its scale"].append(
                    scale_share(music.notes(True), music.score, keys[0])
                )
                found[one]["given in its scale"].append(
                    scale_share(music.notes(False), music.score, keys[0])
                )
    print_table("plan", found, ("key kept", "in its scale", "given in its scale"))


def halves(score: Score, music: Music) -> tuple[Score, Score]:
    """Return the given and the new bars of a score as scores that begin with a bar."""
    from tokenization.score import excerpt

    lines = bar_lines(score, music.given + music.bars)
    line = int(lines[music.given])
    return excerpt(score, 0, line), excerpt(score, line, int(lines[-1]))


def scale_share(notes: Notes, score: Score, key: int | None) -> float:
    """Return the fraction of pitched notes in the scale of a key (minor: natural, with the leading note)."""
    drums = np.array([track.is_drum for track in score.tracks])
    pitch = notes.pitch[~drums[notes.track]]
    key = key or 0
    scale = (0, 2, 4, 5, 7, 9, 11) if key < len(ROOTS) else (0, 2, 3, 5, 7, 8, 10, 11)
    return float(np.isin((pitch - key) % 12, scale).mean()) if len(pitch) else 1.0


IDEAS: tuple[dict[str, Any], ...] = (
    {"style": "pop"}, {"style": "band"}, {"style": "song"}, {"style": "quartet"}, {"style": "keyboard"},
    {"style": "band", "parts": ["trumpet", "piano", "bass", "drums"]}, {"style": "song", "parts": ["oboe", "piano"]},
    {"style": "quartet", "parts": ["clarinet", "horn", "bassoon", "cello"]},
    {"style": "pop", "parts": ["flute", "piano"]},
    {"style": "band", "parts": ["alto sax", "trombone", "bass", "drums"]},
)  # fmt: skip
KEYS = ("C major", "G minor", "Eb major", "F# minor", "A major", "D minor")
METRES = ("4/4", "3/4", "5/4", "6/8", "2/4")
LONG, HALF = 64, 32  # bars


def print_nothing(model: Playable, given: Namespace) -> None:
    ideas = [
        {**IDEAS[n % len(IDEAS)], "key": KEYS[n % len(KEYS)], "metre": METRES[n % len(METRES)]}
        for n in range(6 * given.pieces)
    ]
    works = [
        Continuation(
            model,
            empty_prompt(model.language, idea),
            Request(bars=BARS, seed=given.seed + n, free=given.free),
        )
        for n, idea in enumerate(ideas)
    ]
    pop = empty_prompt(model.language, {"style": "pop"})
    works.append(
        Continuation(
            model,
            pop,
            Request(bars=LONG, seed=given.seed, variations=given.pieces, free=given.free),
        )
    )
    for _ in run_together(works):
        pass
    found: Found = defaultdict(list)
    for idea, work in zip(ideas, works[:-1], strict=True):
        score = work.takes()[0].score
        names = model.language.beginnings()["key"]
        key = key_of(model.language.sheet(model.language.encode(score).ids))
        found["key as asked"].append(key == names.index(idea["key"]))
        meters = score.meters
        times = {*zip(meters.numerator.tolist(), meters.denominator.tolist(), strict=True)}
        found["metre kept"].append({f"{top}/{low}" for top, low in times} == {idea["metre"]})
        if idea["metre"] == "5/4":
            beat = score.notes.onset_ticks // score.ticks_per_beat % 5
            found["fifth beat"].append(3 * float((beat == 4).sum() / max((beat % 4 > 0).sum(), 1)))
        for track, about in enumerate(score.tracks):
            notes = score.notes[score.notes.track == track]
            if about.is_drum or not len(notes):
                continue
            instrument = instrument_of(about)
            out = (notes.pitch < LOWEST[instrument]) | (notes.pitch > HIGHEST[instrument])
            found["out of range"].append(bool(out.any()))
            if IS_SINGLE[instrument]:
                found["chords in winds"].append(len(np.unique(notes.onset_ticks)) < len(notes))
    for take in works[-1].takes():
        add_form(take.score, found)
    rows = {"written": found}
    for folder in given.data:
        rows[f"{folder}: real"] = defaultdict(list)
    given.without_own, given.files = True, []
    for group, _, piece, _ in pieces(given, model):
        for folder in given.data:
            if Path(folder).name == group and piece.bars >= LONG:
                add_form(piece.score, rows[f"{folder}: real"])
    print_table("from nothing", rows, tuple(found))


def add_form(score: Score, found: Found) -> None:
    """Add the bars of a piece's beginning that return, and that repeat, and the entropy of its lengths."""
    for bars in (HALF, LONG):
        measured = form(score, 0, bars)
        for name, measure in (("returns", "returns"), ("exact", "repeats")):
            found[f"{name} of {bars}"].append(measured[measure])
    notes = between(score.pitched, 0, int(bar_lines(score, LONG)[-1]))
    twelfths = np.round(12 * notes.duration_ticks / score.ticks_per_beat)
    found["lengths"].append(entropy(twelfths))


def main() -> int:
    given = options(
        __doc__, "table", files=[], data=[], pieces=10, takes=3, seed=1, split="validation", model="ensemble",
        free=False, each=False, without_own=False,
    )  # fmt: skip
    if (table := str(given.table)) not in TABLES:
        print(f"there is no table {table!r}; choose one of {', '.join(TABLES)}")
        return 2
    TABLES[table](load(given.model), given)
    return 0


TABLES = {"roles": print_roles, "plan": print_plan, "nothing": print_nothing}


if __name__ == "__main__":
    sys.exit(main())
