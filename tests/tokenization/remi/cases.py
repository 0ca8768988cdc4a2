"""Makers for REMI's tests: scores, valid sequences, and the rules once more, slow and plain."""

from collections import defaultdict
from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import strategies as st

from tests.tokenization.grammar_cases import block_index
from tokenization.analysis.chords import CHORDS
from tokenization.analysis.metres import METRES
from tokenization.remi.language import Remi, RemiInEveryMetre
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track

REMI, EVERY_METRE = Remi(), RemiInEveryMetre()
VERSIONS = {speaker.name: speaker for speaker in (REMI, EVERY_METRE)}


def score_of(notes, ticks_per_beat=4, tempos=(), markers=(), meters=()) -> Score:
    """Return a one-track score of (onset, duration, pitch, velocity) rows."""
    columns = zip(*notes, strict=True) if notes else [[]] * 4
    return Score(
        ticks_per_beat=ticks_per_beat,
        notes=Notes(*columns, np.zeros(len(notes))),
        tracks=(Track(),),
        tempos=Tempos(*zip(*tempos, strict=True)) if tempos else Tempos.empty(),
        meters=Meters(*zip(*meters, strict=True)) if meters else Meters.empty(),
        markers=tuple(Marker(onset, text) for onset, text in markers),
    )


@st.composite
def scores(draw) -> Score:
    """Return scores as ugly as they come, with a note on the piano at least."""
    ticks_per_beat = draw(st.sampled_from([1, 3, 8, 12, 96, 480]))
    onset = st.integers(0, draw(st.sampled_from([4, 40, 200])) * ticks_per_beat)
    low, high = draw(st.sampled_from([(0, 127), (58, 64)]))
    note = st.tuples(
        onset,
        st.one_of(st.integers(0, ticks_per_beat), st.integers(0, 40 * ticks_per_beat)),
        st.integers(low, high),
        st.integers(0, 127),
    )
    sure = draw(st.tuples(onset, st.just(1), st.integers(21, 108), st.just(64)))
    tempo = st.tuples(onset, st.floats(1, 1000))
    marker = st.tuples(onset, st.sampled_from(["Verse", "C_M", *CHORDS[:3], CHORDS[-1]]))
    numbers = st.tuples(st.integers(0, 13), st.sampled_from([1, 2, 4, 8, 16, 0, 7]))
    metre = st.one_of(st.sampled_from(METRES), numbers)
    meter = st.tuples(onset, metre).map(lambda pair: (pair[0], *pair[1]))
    return score_of(
        [*draw(st.lists(note, max_size=60)), sure],
        ticks_per_beat,
        draw(st.lists(tempo, max_size=6)),
        draw(st.lists(marker, max_size=12)),
        draw(st.lists(meter, max_size=6)),
    )


def walk(seed: int, length: int, speaker: Remi = REMI) -> np.ndarray:
    """Return a valid sequence: a random walk through the grammar, then the shortest way out."""
    random = np.random.default_rng(seed)
    vocabulary = speaker.vocabulary
    # Some walks are thick with notes and some thin, so that both dense and empty bars occur.
    taste = random.exponential(size=len(vocabulary.blocks))
    grammar, ids = speaker.grammar(), []
    families_out = ("duration", "volume", "pitch", "subbeat", "late_subbeat", "chord")
    ways_out = [vocabulary[name] for name in families_out if name in vocabulary.blocks]
    while not ids or ids[-1] != vocabulary.id("end"):
        allowed = grammar.allowed()[0].copy()
        if len(ids) < length:
            allowed[vocabulary.id("end")] = False
            families = np.unique(block_index(vocabulary)[allowed])
            family = random.choice(families, p=taste[families] / taste[families].sum())
            choice = random.choice(np.flatnonzero(allowed & (block_index(vocabulary) == family)))
        elif allowed[vocabulary.id("end")]:
            choice = vocabulary.id("end")
        else:
            choice = next(
                block.start + offsets[0]
                for block in [*ways_out, vocabulary["bar"], vocabulary["special"]]
                if len(offsets := np.flatnonzero(allowed[block.start : block.stop]))
            )
        ids.append(int(choice))
        grammar.advance(np.array([choice]))
    return np.array(ids, dtype=np.uint16)


class SlowRules:
    """The rules of REMI, a token name at a time, from their description and not from the code."""

    def __init__(self) -> None:
        self.last = "nothing"
        self.bar, self.subbeat, self.bar_has_notes = 0, -1, False
        self.metre, self.bar_start = "4/4", 0
        self.tempo = self.chord = None
        self.struck, self.sounds_until = -1, defaultdict(Fraction)

    @property
    def length(self) -> int:
        """Return the sub-beats of the bar."""
        numerator, denominator = map(int, self.metre.split("/"))
        return 16 * numerator // denominator

    def admit(self, name: str) -> bool:
        """Say whether a token may come next."""
        family, _, value = name.partition("_")
        now = self.bar_start + self.subbeat
        later = family == "subbeat" and self.subbeat < int(value) < self.length
        last = self.bar_start + self.length - 1
        later = later and (
            self.bar_has_notes
            or any(self.sounds_until[str(pitch)] <= last for pitch in range(21, 109))
        )
        new_chord = family == "chord" and value != self.chord
        key = family == "pitch" and int(value) > self.struck
        key = key and self.sounds_until[value] <= now
        closed = name in ("bar", "end") and self.bar_has_notes
        return {
            "nothing": name == "begin",
            "begin": name == "bar",
            "end": False,
            "bar": name == "bar" or later or (family == "metre" and value != self.metre),
            "metre": name == "bar" or later,
            "subbeat": new_chord
            or key
            or (family == "tempo" and self.subbeat == 0 and value != self.tempo),
            "tempo": new_chord or key or later,
            "chord": key or later or closed,
            "pitch": family == "volume",
            "volume": family == "duration",
            "duration": key or later or closed,
        }[self.last]

    def take(self, name: str) -> None:
        """Go on by a token."""
        self.last, _, value = name.partition("_")
        if name == "bar":
            self.bar_start += self.length if self.bar else 0
            self.bar, self.subbeat, self.bar_has_notes = self.bar + 1, -1, False
        elif self.last == "metre":
            self.metre = value
        elif self.last == "subbeat":
            self.subbeat, self.struck = int(value), -1
        elif self.last == "tempo":
            self.tempo = value
        elif self.last == "chord":
            self.chord = value
        elif self.last == "pitch":
            self.struck, self.bar_has_notes = int(value), True
        elif self.last == "duration":
            end = self.bar_start + self.subbeat + Fraction(value)
            self.sounds_until[str(self.struck)] = end


def slow_fault(ids, speaker: Remi = REMI) -> int | None:
    """Return the first position at fault."""
    rules = SlowRules()
    names = speaker.vocabulary.names
    for position, token in enumerate(ids):
        if not rules.admit(names[token]):
            return position
        rules.take(names[token])
    return None


def slow_notes(score: Score, longest_ticks: int = 32) -> list[tuple[int, int, int]]:
    """Return the notes on the grid as (onset, duration, pitch) in eighths of a beat."""
    longest: dict[tuple[int, int], int] = {}
    for onset, duration, pitch in zip(*(c.tolist() for c in score.notes.columns[:3]), strict=True):
        if 21 <= pitch <= 108:
            subbeat = floor(Fraction(onset * 4, score.ticks_per_beat) + Fraction(1, 2))
            ticks = floor(Fraction(duration * 8, score.ticks_per_beat) + Fraction(1, 2))
            place = (2 * subbeat, pitch)
            longest[place] = max(longest.get(place, 1), min(ticks, longest_ticks))
    found = []
    for (onset, pitch), duration in sorted(longest.items()):
        later = [other for other, same in longest if same == pitch and other > onset]
        found.append((onset, min([duration, *(other - onset for other in later)]), pitch))
    return found
