"""Rules of music on the logits: what is added to those of the next token, besides the masks of the grammar.

Each rule takes the recall of a sequence and yields tokens with the nats that it adds. `RULES` lists them; they are
applied in one place (`add_to`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from musicgen.parts import BAR, NOTE, ONSET, PART, VALUES
from musicgen.recall import COUNT, NAMED, Recall
from tokenization.analysis.notated import is_notated

Nats = Iterator[tuple["int | np.ndarray", float]]
"""Tokens, and what is added to their logits."""

# In a bar that returns, the nats added to the logit of the source's next token: at first; once ALIGNED tokens in a row
# agree with the source; and to that of its next note while a part is still equal to the source, since songs vary what
# they repeat, most of all if it was near. The plan names near sources; others are guessed, or set by the request.
# Chosen on validation songs (docs/results.md).
ALIGNED = 4
NAMED_BOOST, GUESSED_BOOST, REQUESTED_BOOST = (1.8, 0.6, -3.8), (5.2, 1.0, -2.8), (3.0, 3.0, -1.0)
# The nats that are added to those for notes that vary, in music without a prompt, which repeats itself more than songs.
ALONE = -1.2
# Parts of which so many bars are equal to one of the SHOWN bars before are not varied.
OFTEN_EXACT, SHOWN = 0.25, 16
# What given music is: scores have no drums and few lengths. They repeat bars as they are, unless a request asks for the
# return.
BAND, SCORE, PERFORMANCE = "band", "score", "performance"


def follow_the_source(sequence: Recall) -> Nats:
    """Favour the next token of the bar that this one returns to."""
    if (token := sequence.next_of_source()) < 0:
        return
    requested, named = sequence.source_is_requested, sequence["return_kind"] == NAMED
    if not requested and (broken := breaking(sequence)) is not None and broken[token]:
        return
    boost = REQUESTED_BOOST if requested else NAMED_BOOST if named else GUESSED_BOOST
    stage = int(sequence["agreed"] >= ALIGNED)
    varies = sequence.varies if requested else music_of(sequence) != SCORE
    is_note = sequence.roles.kinds[0, token] == NOTE
    if stage and varies and is_note and not _may_repeat(sequence):
        stage = 2
    alone = ALONE if stage == 2 and not sequence.given else 0
    yield token, (boost[stage] + alone) * sequence.strength


def _may_repeat(sequence: Recall) -> bool:
    """Return whether the current part departs from the source, is the drums, or often repeated bars exactly before."""
    if sequence.exact_parts is None:
        sequence.exact_parts = _exact_parts(sequence)
    now = sequence.bars()[-1]
    ids = sequence.tokens_of(now)
    begins = np.flatnonzero(sequence.roles.kinds[0, ids] == PART)
    if not len(begins) or ids[begins[-1]] == sequence.roles.drums:
        return True
    if sequence.source_parts[0] != now:
        sequence.source_parts = now, _parts(sequence, sequence.tokens_of(sequence["source"]))
    ((part, notes),) = _parts(sequence, ids[begins[-1] :]).items()
    before = sequence.source_parts[1].get(part, b"")
    return part in sequence.exact_parts or not before.startswith(notes)


def _exact_parts(sequence: Recall) -> frozenset[bytes]:
    """Return the parts of which so many bars are equal to an earlier one."""
    exact: dict[bytes, list[bool]] = {}
    past: list[dict[bytes, bytes]] = []
    for bar in sequence.bars()[:-1][-2 * SHOWN :]:
        now = _parts(sequence, sequence.tokens_of(bar))
        for part, notes in now.items():
            before = (other.get(part) for other in past[-SHOWN:])
            exact.setdefault(part, []).append(notes in before)
        past.append(now)
    return frozenset(part for part, found in exact.items() if np.mean(found) >= OFTEN_EXACT)


def music_of(sequence: Recall) -> str:
    """Return whether the given music is of a BAND, a SCORE or a PERFORMANCE."""
    if not sequence.music:
        given = [sequence.tokens_of(bar) for bar in sequence.bars() if bar < sequence.given]
        ids = np.concatenate(given) if given else np.zeros(0, np.int64)
        lengths = ids[sequence.roles.kinds[0, ids] == VALUES]
        if sequence.roles.drums in ids:
            sequence.music = BAND
        else:
            sequence.music = SCORE if is_notated(lengths) else PERFORMANCE
    return sequence.music


# The factor of min-p where chords can come: with all of it, the harmony of bands stands still; with none, that of
# scores wanders.
LIMIT_OF_CHORDS = {PERFORMANCE: 1.0, SCORE: 0.3, BAND: 0.0}


def limit_of_chords(sequence: Recall | None) -> float:
    """Return the factor of min-p where chords can come."""
    if sequence is None or sequence.given < 0:
        return 1.0
    return LIMIT_OF_CHORDS[music_of(sequence)]


def _parts(sequence: Recall, ids: np.ndarray) -> dict[bytes, bytes]:
    """Return the onsets and notes of each part of a bar, by the tokens that name it."""
    found = {}
    for part in np.split(ids, np.flatnonzero(sequence.roles.kinds[0, ids] == PART))[1:]:
        kinds = sequence.roles.kinds[0, part]
        begins = np.flatnonzero(np.append(kinds, ONSET) == ONSET)[0]
        found[part[:begins].tobytes()] = part[(kinds == ONSET) | (kinds == NOTE)].tobytes()
    return found


LOOP_PENALTY = 2.5  # nats for each bar of a loop, against returns that would lengthen it
# The Jaccard index of a bar with one of so many bars before it that makes a loop.
LOOPED, LOOP = 0.75, 4


def leave_loops(sequence: Recall) -> Nats:
    """Avoid near returns where the last bars are like those just before them, more than the given ones were."""
    bars = sequence.bars()
    if not bars:
        return
    if sequence.looped[0] != bars[-1]:
        begun, length, usual = sequence.looped
        new = range(max(begun, bars[0]), bars[-1])  # bars since then
        events = [_events(sequence, bar) for bar in range(max(new.start - LOOP, bars[0]), bars[-1])]
        lengths = [length]
        for at in range(len(events) - len(new), len(events)):
            again = any(_shared(events[at], one) > LOOPED for one in events[max(at - LOOP, 0) : at])
            lengths.append(max(lengths[-1] + (1 if again else -1), 0))
        sequence.looped = bars[-1], lengths[-1], max(lengths) if begun < 0 else usual
    _, length, usual = sequence.looped
    if length > usual:
        near = sequence.roles.bars_back <= LOOP
        yield sequence.roles.returns[near], -LOOP_PENALTY * (length - usual)


EXHAUSTED_PENALTY = 30.0  # nats; finite, as such a return can be all that is allowed


def limit_repetition(sequence: Recall) -> Nats:
    """Avoid returns to bars whose notes have reached the limit."""
    now = sequence["begun"] - 1
    back = sequence.roles.bars_back
    possible = back <= now
    if now >= 0 and possible.any():
        counts = sequence.table(0, now)[now - back[possible], COUNT]
        yield sequence.roles.returns[possible][counts >= sequence["limit"]], -EXHAUSTED_PENALTY


# Drums keep to their pattern: tokens that would break it become less probable.
#
# Drums repeat themselves after one, two, four or eight bars. Where most hits of the last bars recur at such a period,
# the next bar is expected to have the hits of the bar one period before. The returns of a plan cannot do this: they are
# returns of whole bars, which differ as soon as the chords do.
#
# A hit is an onset in the bar and a drum, packed into one integer; the hits of a bar are a sorted array of them.

PENALTY = 3.0  # nats by which tokens that break the pattern become less probable …
FILL_PENALTY = 8.0  # … in a bar unlike the one before, which the network would rather repeat
PERIODS = (1, 2, 4, 8)  # bars
COMPARED = 8  # last bars that are compared with those one period before
PHRASE = 8  # bars after which fills recur
LASTING = 16  # new bars in which the pattern of given ones lasts
ALIKE = 0.95  # fraction of hits that a bar shares with the one before, if it is no fill
MIN_SHARED = 0.7  # mean fraction of hits that these pairs of bars must share
MARGIN = 0.02  # by which a longer period must exceed the shorter ones
NO_HITS = np.zeros(0, np.int64)


def keep_the_drums(sequence: Recall) -> Nats:
    """Avoid what would break the pattern of the drums; fills are kept, however little is recalled."""
    if (broken := breaking(sequence)) is not None:
        yield broken, -(FILL_PENALTY if sequence.expected[2] else PENALTY * sequence.strength)


def breaking(sequence: Recall) -> np.ndarray | None:
    """Return which tokens would break the drums' pattern, (V,) bool, or None outside drums or without a pattern."""
    if sequence.breaking[0] != sequence["length"]:
        sequence.breaking = sequence["length"], _breaking(sequence)
    return sequence.breaking[1]


def _breaking(sequence: Recall) -> np.ndarray | None:
    drums = sequence.roles.drums
    if drums < 0 or sequence["current_part"] != drums or not sequence.bars():
        return None
    expected = _expected(sequence)
    if not len(expected):
        return None
    size, (kinds, values) = sequence.roles.kinds.shape[1], sequence.roles.kinds
    ids = sequence.tokens_of(sequence.bars()[-1])
    ids = ids[np.flatnonzero(kinds[ids] == PART)[-1] :]  # of the current part
    kind = kinds[ids]
    onsets = np.flatnonzero(kind == ONSET)
    now = int(values[ids[onsets[-1]]]) if len(onsets) else -1
    here = expected[expected // size == now] % size  # drums expected at this onset
    missing = np.setdiff1d(here, ids[onsets[-1] :]) if len(onsets) else NO_HITS
    later = expected[expected >= (now + 1) * size] // size  # onsets
    broken = np.zeros(size, bool)
    if kind[-1] in (PART, NOTE) and not len(missing):  # the onset is complete
        broken |= (kinds == ONSET) & (values != later[0] if len(later) else True)
        if kind[-1] == NOTE and len(here):
            broken |= (kinds == NOTE) | (kinds >= VALUES)
    if kind[-1] == NOTE and (len(missing) or len(later)):
        broken |= (kinds == PART) | (kinds == BAR)
    if len(missing):
        broken |= kinds == NOTE
        broken[missing] = False
        if kind[-1] == NOTE:
            broken |= kinds == ONSET
    return broken


def _expected(sequence: Recall) -> np.ndarray:
    """Return the expected hits of the current bar, computed once per bar; empty without a pattern."""
    *past, now = sequence.bars()
    if sequence.expected[0] != now:
        new = now - sequence.given if sequence.given >= 0 else 0
        drums = sequence.roles.drums
        hits = [_events(sequence, bar, only=drums) for bar in past[-2 * PHRASE - 1 - new :]]
        recent = hits[-2 * PHRASE - 1 :]
        expected = fill(recent)
        if not len(expected) and new < LASTING:
            expected = _lasting(hits[: len(hits) - new], new)
        expected = expected if len(expected) else pattern(recent)
        differs = bool(len(expected)) and _shared(expected, hits[-1]) < ALIKE
        sequence.expected = now, expected, differs
    return sequence.expected[1]


def _lasting(given: list[np.ndarray], new: int) -> np.ndarray:
    """Return the hits of a new bar by the pattern of given ones, or none without a period."""
    back = period(given)
    return given[new % back - back] if back else NO_HITS


def _events(sequence: Recall, bar: int, *, only: int = -1) -> np.ndarray:
    """Return the notes of a bar with their onsets, in all parts or in one."""
    ids = sequence.tokens_of(bar)
    kind, value = sequence.roles.kinds[:, ids]
    indices = np.arange(len(ids))
    part, onset = (
        np.maximum.accumulate(np.where(kind == one, indices, -1)) for one in (PART, ONSET)
    )
    hit = (kind == NOTE) & (part >= 0) & (onset > part) & ((ids[part] == only) | (only < 0))
    return np.unique(value[onset[hit]] * sequence.roles.kinds.shape[1] + ids[hit])


def pattern(bars: list[np.ndarray]) -> np.ndarray:
    """Return the hits expected after these bars: those of the bar one period before, or none without a period."""
    back = period(bars)
    return bars[-back] if back else NO_HITS


def period(bars: list[np.ndarray]) -> int:
    """Return the number of bars after which most hits of the last bars recur, 0 for none."""
    best, chosen = MIN_SHARED - MARGIN, 0
    for back in PERIODS:
        compared = range(max(back, len(bars) - COMPARED), len(bars))
        pairs = [(bars[bar], bars[bar - back]) for bar in compared]
        shared = [_shared(*pair) for pair in pairs if len(pair[0]) or len(pair[1])]
        if shared and sum(shared) / len(shared) > best + MARGIN:
            best, chosen = sum(shared) / len(shared), back
    return chosen


def fill(bars: list[np.ndarray]) -> np.ndarray:
    """Return the hits of the fill expected after these bars, or none.

    A fill is unlike the bars around it, which are alike. The one sixteen bars before recurs, which new bars have not
    worn away; the one eight bars before, if there are not so many.
    """
    back = 2 * PHRASE if len(bars) > 2 * PHRASE else PHRASE
    return bars[-back] if back < len(bars) and _is_fill(bars, back) else NO_HITS


def _is_fill(bars: list[np.ndarray], back: int) -> bool:
    before, here, after = bars[-back - 1], bars[-back], bars[-back + 1]
    shared = _shared(before, after), _shared(here, before), _shared(here, after)
    return shared[0] >= MIN_SHARED > max(shared[1:])


def _shared(hits: np.ndarray, others: np.ndarray) -> float:
    """Return the fraction of all hits of two bars that both have."""
    both = len(np.intersect1d(hits, others, assume_unique=True))
    return both / max(len(hits) + len(others) - both, 1)


RULES: tuple[Callable[[Recall], Nats], ...] = (
    follow_the_source,
    leave_loops,
    limit_repetition,
    keep_the_drums,
)


def add_to(bias: np.ndarray, sequence: Recall, factor: float = 1.0) -> None:
    """Add what all rules say of the next token, times a factor, to a bias, (V,)."""
    if sequence.given < 0:
        sequence.given = max(sequence["begun"] - 1, 0)
    if not sequence.strength:
        return
    for rule in RULES:
        for tokens, nats in rule(sequence):
            bias[tokens] += np.float32(nats * factor)
