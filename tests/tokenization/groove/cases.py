"""Makers for the groove tests: scores, valid sequences, and the rules once more, slow and plain."""

import json
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import block_index
from tests.tokenization.groove.strict import StrictGrammar
from tokenization.groove.spelling import VOCABULARY
from tokenization.score import Notes, Score, Tempos, Track

TRIO = (Track("Bass", 33), Track("Drums", 0, True), Track("Other", 0))
GOLDEN = Path(__file__).parents[2] / "golden" / "groove_tokens.json"


def golden_cases() -> list[dict]:
    """Return the reference's cases: notes by track, their tokens, and the notes read back."""
    return json.loads(GOLDEN.read_text())["cases"]


def golden_trio(tracks) -> Score:
    """Return the trio of (onset, duration, pitch) rows by track."""
    return trio_of([(*note, 80, track) for track, notes in enumerate(tracks) for note in notes])


def golden_tokens(case: dict) -> list[str]:
    """Return a case's tokens; the reference has no begin, and says eos for end."""
    assert case["tokens"][-1] == "eos"
    return ["begin", *case["tokens"][:-1], "end"]


def trio_of(notes, ticks_per_beat=12, tempos=()) -> Score:
    """Return a trio of (onset, duration, pitch, velocity, track) rows."""
    columns = zip(*notes, strict=True) if notes else [[]] * 5
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*columns),
        tracks=TRIO,
        tempos=Tempos(*zip(*tempos, strict=True)) if tempos else Tempos.empty(),
    )


@st.composite
def trios(draw) -> Score:
    """Return trios as ugly as they come, with a note at least."""
    ticks_per_beat = draw(st.sampled_from([1, 7, 12, 96, 192, 480]))
    onset = st.integers(0, draw(st.sampled_from([1, 6, 80])) * ticks_per_beat)
    note = st.tuples(
        onset,
        st.one_of(st.integers(0, ticks_per_beat), st.integers(0, 12 * ticks_per_beat)),
        draw(st.sampled_from([st.integers(0, 127), st.integers(60, 62), st.just(127)])),
        st.integers(1, 127),
        draw(st.sampled_from([st.integers(0, 2), st.integers(0, 2), st.just(2)])),
    )
    tempo = st.tuples(onset, st.floats(20, 500))
    return trio_of(
        draw(st.lists(note, min_size=1, max_size=80)),
        ticks_per_beat,
        draw(st.lists(tempo, max_size=4)),
    )


def walk(seed: int, length: int) -> np.ndarray:
    """Return a valid sequence: a random walk through the grammar, then a way out."""
    random = np.random.default_rng(seed)
    # Some walks rush and some pile up notes; few favourite keys make unisons and overlaps.
    taste = random.exponential(size=len(VOCABULARY.blocks))
    favourites = np.isin(
        np.arange(len(VOCABULARY)) % 384, random.integers(384, size=random.integers(1, 7))
    )
    grammar, ids = StrictGrammar(), []
    while not ids or ids[-1] != VOCABULARY.id("end"):
        allowed = grammar.allowed()[0].copy()
        if len(ids) < length:
            allowed[VOCABULARY.id("end")] = False
            families = np.unique(block_index(VOCABULARY)[allowed])
            family = random.choice(families, p=taste[families] / taste[families].sum())
            choices = allowed & (block_index(VOCABULARY) == family)
            if random.random() < 0.8 and (choices & favourites).any():
                choices &= favourites
            choice = random.choice(np.flatnonzero(choices))
        else:
            ways_out = ["end", "note_off", "time_shift_1_0", "note_on"]
            choice = next(
                offsets[0]
                for way in ways_out
                if len(offsets := np.flatnonzero(allowed & _named(way)))
            )
        ids.append(int(choice))
        grammar.advance(np.array([choice]))
    return np.array(ids, dtype=np.uint16)


def _named(start: str) -> np.ndarray:
    return np.array([name.startswith(start) for name in VOCABULARY.names])


class SlowRules:
    """The rules of the language, a token name at a time, from their description."""

    def __init__(self) -> None:
        self.last, self.time = "nothing", 0
        self.sounding: list[tuple[int, str]] = []  # (number of the note, key), oldest first
        self.begun = 0
        self.ended_here: list[int] = []
        self.begun_here: list[tuple[int, int]] = []

    def admit(self, name: str) -> bool:
        """Say whether a token may come next."""
        if self.last in ("nothing", "end") or name == "begin":
            return self.last == "nothing" and name == "begin"
        if name == "end":
            return self.last == "event" and not self.sounding
        if name.startswith("time_shift"):
            target = self._target(name)
            stays = target == self.time and any(
                self._fits_here(other) for other in VOCABULARY.names if other.startswith("note")
            )
            return self.last == "long" or (self.last != "shift" and (target > self.time or stays))
        on_beat = self.time % 12 == 0 and self.last in ("begin", "event")
        return (on_beat or self.last in ("shift", "long")) and self._fits_here(name)

    def _fits_here(self, name: str) -> bool:
        kind, key = name[: name.index("_", 5)], name[name.index("_", 5) + 1 :]
        ages = [number for number, other in self.sounding if other == key]
        if kind == "note_on":
            track, pitch = map(int, key.split("_"))
            return len(ages) < 8 and all(said <= (pitch, track) for said in self.begun_here)
        oldest_last = bool(ages) and all(ages[0] > ended for ended in self.ended_here)
        return oldest_last and not self.begun_here

    def _target(self, name: str) -> int:
        beats, tick = map(int, name.split("_")[2:])
        return (self.time // 12 + beats) * 12 + tick

    def take(self, name: str) -> None:
        """Go on by a token."""
        if name in ("begin", "end"):
            self.last = name
        elif name.startswith("time_shift"):
            if self._target(name) != self.time:
                self.time = self._target(name)
                self.ended_here, self.begun_here = [], []
            self.last = "long" if name == "time_shift_2_0" else "shift"
        else:
            self.last = "event"
            kind, track, pitch = name.rsplit("_", 2)
            key = f"{track}_{pitch}"
            if kind == "note_on":
                self.sounding.append((self.begun, key))
                self.begun += 1
                self.begun_here.append((int(pitch), int(track)))
            else:
                ended = next(note for note in self.sounding if note[1] == key)
                self.sounding.remove(ended)
                self.ended_here.append(ended[0])


def slow_fault(ids) -> int | None:
    """Return the first position at fault."""
    rules = SlowRules()
    for position, token in enumerate(ids):
        if not rules.admit(VOCABULARY.names[token]):
            return position
        rules.take(VOCABULARY.names[token])
    return None


def slow_notes(score: Score) -> list[tuple[int, int, int, int]]:
    """Return the notes on the grid as (onset, track, pitch, duration), key by key."""

    def on_grid(ticks: int) -> int:
        return floor(Fraction(ticks * 12, score.ticks_per_beat) + Fraction(1, 2))

    keys: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for onset, duration, pitch, _, track in zip(
        *(column.tolist() for column in score.notes.columns), strict=True
    ):
        start, end = on_grid(onset), on_grid(onset + duration)
        keys.setdefault((track, pitch), []).append((start, max(end, start + 1)))
    found = []
    for (track, pitch), spans in keys.items():
        kept: list[tuple[int, int]] = []
        for span in sorted(spans, key=lambda span: (span[0], -span[1])):
            if sum(start == span[0] for start, _ in kept) < 8:
                kept.append(span)
        starts, ends = sorted(s for s, _ in kept), sorted(e for _, e in kept)
        for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
            end = min([end, *starts[i + 8 : i + 9]])
            found.append((start, track, pitch, end - start))
    return sorted(found)
