"""Every language preserves the quantised score, has a unique encoding for it, and explains invalid sequences."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenization.ensemble import cases as ensemble
from tests.tokenization.grammar_cases import damages, ids_of, quantised
from tests.tokenization.groove import cases as groove
from tests.tokenization.remi import cases as remi
from tokenization.ensemble.sequences import plain
from tokenization.ensemble.spelling import spell
from tokenization.ensemble.tokens import EXTRA_START
from tokenization.groove.spelling import MOST_UNISONS
from tokenization.language import Language, language, language_from_spec
from tokenization.score import Marker, Meters, Notes, Pedals, Score, Tempos, Track

REMI, GROOVE = remi.REMI, language("groove")
SEEDS = st.integers(0, 2**32 - 1)
LEFT_OUT = ("out of range", "merged", f"struck more than {MOST_UNISONS} times at once")


@dataclass(frozen=True)
class Case:
    """A language, with independent knowledge about it."""

    language: Language
    scores: st.SearchStrategy[Score]
    walk: Callable[[int, int], np.ndarray]
    completes: str = ""  # prefix of the tokens that complete a note
    notes: Callable[[Score], list[tuple[int, ...]]] | None = None  # reference for notes on the grid
    plain: Callable[[np.ndarray], np.ndarray] = np.asarray
    tokens: int | None = None  # number of tokens of plain pieces
    longest: int = 100  # length of a walk
    encode: Callable[[np.ndarray], np.ndarray] | None = None  # decodes and encodes a plain piece


CASES = {
    "remi": Case(REMI, remi.scores(), remi.walk, "duration", remi.slow_notes),
    "groove": Case(GROOVE, groove.trios(), groove.walk, "note_off", groove.slow_notes),
    "ensemble": Case(
        ensemble.LANGUAGE,
        ensemble.scores(),
        ensemble.walk,
        plain=plain,
        tokens=EXTRA_START,
        longest=40,
        encode=lambda ids: spell(ensemble.LANGUAGE.sheet(ids)),
    ),
}


def encoded_again(case: Case, ids: np.ndarray) -> np.ndarray:
    """Decode a plain piece and encode it again."""
    if case.encode is not None:
        return case.encode(ids)
    encoded = case.language.encode(case.language.decode(ids))
    assert encoded.losses == {}
    assert encoded.ids.dtype == np.uint16
    return encoded.ids


EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@EVERY
@settings(max_examples=60)
@given(data=st.data())
def test_decoding_returns_the_quantised_score(case: Case, data):
    score, speaker = data.draw(case.scores), case.language
    encoded = speaker.encode(score)
    decoded = speaker.decode(encoded.ids, encoded.setting)
    assert speaker.validate(encoded.ids) is None
    assert encoded.bars.tolist() == speaker.bars(encoded.ids).tolist()
    assert encoded.notes == len(decoded.notes)
    if case.notes is None:
        assert decoded.tracks == score.tracks
    else:
        assert groove.rows_of(decoded.notes) == case.notes(score)
        assert decoded == quantised(speaker, score)
        dropped = sum(encoded.losses.get(reason, 0) for reason in LEFT_OUT)
        assert len(decoded.notes) == len(score.notes) - dropped
    again = speaker.encode(decoded)
    assert again.ids.tolist() == encoded.ids.tolist()
    assert again.losses == {}
    assert speaker.decode(again.ids, again.setting) == decoded


@EVERY
@settings(max_examples=50)
@given(SEEDS, st.data())
def test_the_encoding_of_a_score_is_unique(case: Case, seed, data):
    ids = case.walk(seed, data.draw(st.integers(1, case.longest)))
    assert case.language.validate(ids) is None
    assert ids_of(case.language, case.language.text(ids)).tolist() == ids.tolist()
    ids = case.plain(ids)
    assert encoded_again(case, ids).tolist() == ids.tolist()


@EVERY
@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_damaged_sequence_is_invalid_or_encodes_another_score(case: Case, seed, data):
    ids = case.plain(case.walk(seed, data.draw(st.integers(1, case.longest)))).tolist()
    damaged = data.draw(damages(ids, case.tokens or len(case.language.vocabulary)))
    fault = case.language.validate(damaged)
    if fault:
        assert case.language.validate(damaged[: fault.position]) is None
        assert fault.reason
    elif damaged[-1] == case.language.end:
        closed = case.language.close(np.array(damaged))  # groove allows any order of events at once
        assert encoded_again(case, np.array(damaged)).tolist() == closed.tolist()


@EVERY
@settings(max_examples=10)
@given(SEEDS)
def test_a_prefix_decodes_to_its_complete_notes(case: Case, seed):
    ids = case.walk(seed, min(60, case.longest))
    compared = 4 if case.completes else 3  # in ensemble, a later note on its key can cut a note
    complete = {row[:compared] for row in groove.rows_of(case.language.decode(ids).notes)}
    completes = [case.language.vocabulary.names[token].startswith(case.completes) for token in ids]
    for stop in range(len(ids)):
        notes = groove.rows_of(case.language.decode(ids[:stop]).notes)
        assert complete.issuperset(row[:compared] for row in notes)
        assert not case.completes or len(notes) == sum(completes[:stop])


@EVERY
def test_arranging_removes_a_rest_at_the_start_and_applies_the_pedal(case: Case):
    score = Score(
        ticks_per_beat=4,
        notes=Notes([40] * 3, [4] * 3, [40, 36, 64], [80] * 3, range(3)),
        tracks=(Track("Bass", 33), Track("Kit", 0, True), Track("Piano")),
        tempos=Tempos([0, 20, 50], [100.0, 90.0, 80.0]),
        meters=Meters([0], [4], [4]),
        pedals=Pedals([40, 40], [8, 12], [0, 1]),
        markers=(Marker(0, "C_M"), Marker(36, "D_m"), Marker(44, "E_m")),
    )
    arranged = case.language.arrange(score)
    beat = arranged.ticks_per_beat
    assert {*arranged.notes.onset_ticks / beat} == {2}
    assert arranged.notes[arranged.notes.pitch == 40].duration_ticks == 2 * beat
    assert (arranged.notes[arranged.notes.pitch != 40].duration_ticks == beat).all()
    assert (arranged.tempos.onset_ticks / beat).tolist() == [0, 0, 4.5]
    assert "2 bars of rest are left out at the start." in arranged.remarks
    if case.language.name != "groove":  # groove has no chords
        chords = [(marker.onset_ticks / beat, marker.text) for marker in arranged.markers]
        assert chords == [(0, "C_M"), (1, "D_m"), (3, "E_m")]


@EVERY
def test_a_language_is_restored_from_its_spec(case: Case):
    speaker = case.language
    spec = json.loads(json.dumps(speaker.spec()))
    assert spec == speaker.spec()
    assert type(language_from_spec(spec)) is type(language(spec["language"])) is type(speaker)
    with pytest.raises(ValueError, match=r"differs from that of this program in tokens$"):
        language_from_spec({**spec, "tokens": 7})


def test_earlier_version_has_the_first_tokens_and_not_the_later_styles():
    latest = language("ensemble")
    [earlier] = latest.earlier()
    known = language_from_spec(json.loads(json.dumps(earlier.spec())))
    names = known.vocabulary.names
    assert (len(names), names) == (702, latest.vocabulary.names[:702])
    assert known.goal_tokens() == latest.goal_tokens()
    offered = [one.beginnings()["style"] for one in (known, latest)]
    assert offered[1] == [*offered[0], "rock", "film", "choir", "orchestra", "folk"]
    with pytest.raises(ValueError, match="there is no style 'choir'"):
        known.beginning({"style": "choir"})
    prompt, _ = latest.beginning({"style": "choir", "key": "C"})
    assert latest.validate(prompt) is None
    assert known.validate(prompt) is not None
    doubled = [prompt[0], latest.vocabulary.id("style_pop"), *prompt[1:]]
    assert latest.validate(doubled) is not None


def test_vocabulary_sizes_match_saved_models():
    assert [len(case.language.vocabulary) for case in CASES.values()] == [362, 794, 707]


START = "begin bar subbeat_0"
LOUD = "pitch_60 volume_9 duration_1"
CHORD = "begin note_on_0_40 note_on_2_60 time_shift_1_0"
CHORDS, KEYS = "chord_C_M … chord_N_N", "pitch_21 … pitch_108"
ON = "note_on_0_0 … note_on_2_127"
# Sequences whose last token is not allowed, with the explanation.
FAULTS = {
    "remi": [
        ("bar", "bar may not begin a piece; allowed: begin"),
        (f"{START} pitch_60 duration_2", "follow pitch_60 here; allowed: volume_1 … volume_24"),
        ("begin bar end", "end may not follow bar here; allowed: bar and subbeat_0 … subbeat_15"),
        (f"{START} bar", f"allowed: tempo_32 … tempo_224, {CHORDS} and {KEYS}"),
        (f"{START} chord_C_M bar", f"chord_C_M here; allowed: subbeat_1 … subbeat_15 and {KEYS}"),
        (f"begin bar subbeat_4 {LOUD} subbeat_4", "bar, subbeat_5 … subbeat_15 and pitch_61 … "),
        (
            "begin bar subbeat_12 pitch_60 volume_9 duration_7.5 bar subbeat_3 pitch_60",
            f"allowed: {CHORDS}, pitch_21 … pitch_59 and pitch_61 … pitch_108",
        ),
        (f"{START} chord_N_N subbeat_4 chord_N_N", f"allowed: chord_C_M … chord_B_sus4 and {KEYS}"),
    ],
    "groove": [
        ("begin end", f"follow begin here; allowed: {ON} and time_shift_0_1 … time_shift_2_0"),
        (f"begin {'note_on_2_60 ' * 4} end", "end may not follow note_on_2_60 here"),
        (f"{CHORD} note_off_0_40 note_off_2_60 end end", "follow end here; allowed: nothing"),
        (f"{CHORD} end", f"allowed: {ON}, note_off_0_40 and note_off_2_60"),
        ("begin time_shift_0_5 note_on_0_40 time_shift_0_4", "allowed: time_shift_0_5 … time_"),
        ("begin note_on_0_40 note_off_0_40", f"allowed: {ON} and time_shift_0_1"),
        ("begin" + " note_on_0_60" * 9, "allowed: note_on_0_0 … note_on_0_59, note_on_0_61 … "),
    ],
    "ensemble": [("begin end", "end may not follow begin here; allowed: tempo_44 … tempo_215, ")],
}


@pytest.mark.parametrize(
    ("name", "text", "reason"), [(name, *fault) for name in FAULTS for fault in FAULTS[name]]
)
def test_a_fault_is_explained(name: str, text: str, reason: str):
    speaker = language(name)
    fault = speaker.validate(ids := ids_of(speaker, text))
    assert fault.position == len(ids) - 1
    assert reason in fault.reason


def test_ids_outside_the_vocabulary_are_faults():
    fault = REMI.validate([1, 3, 9999])
    assert fault.position == 2
    assert fault.reason == "9999 is not an id of this language, which has 362 tokens"
    assert REMI.validate([-1]).position == 0  # type: ignore[union-attr]
    assert REMI.validate([]) is None
    with pytest.raises(ValueError, match="there is no language 'x'; available: remi, groove"):
        language("x")
