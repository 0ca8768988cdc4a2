"""Recall: its guesses for known bars, against plain Python, and independent of later tokens."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from musicgen import recall
from musicgen.generation import rules
from musicgen.generation.batch import RECALL_OF_BANDS, Batch
from musicgen.generation.request import Order, Request
from musicgen.generation.sampling import Sampling
from musicgen.guesses import GuessEmbedding, recall_roles
from musicgen.parts import RecallConfig
from musicgen.recall import PLAN_LEVELS, Recall
from tests.musicgen.plain_recall import MIN_MATCH, NEAR, PlainRecall
from tests.musicgen.toys import RECALL as TOY_RECALL
from tests.musicgen.toys import VOCABULARY as TOY_SIZE
from tests.musicgen.toys import generator, toy_model, toy_tokens
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.tokens import EXTRA_START, VOCABULARY
from tokenization.records import from_plain

LANGUAGE = Ensemble()
SIZE = len(LANGUAGE.vocabulary)
CONFIG = from_plain(RecallConfig, LANGUAGE.recalled(), "recalled")
RECALL = recall_roles(CONFIG, SIZE)


def ids(text: str) -> np.ndarray:
    return np.array([VOCABULARY.id(name) for name in text.split()])


def planned(text: str, **given: object) -> str | None:
    """Return the name of the planned guess after some tokens."""
    found = RECALL.begin(**given).take(ids(text))[-1]  # type: ignore[arg-type]
    return VOCABULARY.names[found[recall.PLANNED] - 1] if found[recall.PLANNED] else None


FIRST = "begin piano bar piano at_0 length_24 loudness_8 pitch_60 pitch_64 at_24 pitch_62 at_48 pitch_67 "


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("bar return_1", "piano"),
        ("bar return_1 density_3", "piano"),
        ("bar return_1 piano at_0 length_24", "loudness_8"),
        ("bar return_1 piano at_0 length_48", "loudness_8"),  # another length
        ("bar return_1 piano at_0 length_24 loudness_8 pitch_60", "pitch_64"),
        ("bar return_1 piano at_0 length_24 loudness_8 pitch_64", "at_24"),  # a note is missing
        ("bar return_1 piano at_0 length_24 loudness_8 pitch_59", "pitch_60"),  # an added or replaced note
        ("bar return_1 piano at_12 length_24", "at_24"),  # an added onset
        ("bar return_1 piano at_24", "pitch_62"),
        ("bar return_1 piano at_30", "at_48"),
        ("bar return_1 piano at_0 length_24 loudness_8 pitch_60 pitch_64 at_24 pitch_62 at_48 pitch_67", "bar"),
        ("bar return_1 flute", None),  # a part that the source lacks
        ("bar return_1 flute at_0 piano", "at_0"),
        ("bar return_new piano", None),
        ("bar piano", None),  # no plan
        ("bar return_2", None),  # before the first bar
        ("bar piano bar return_2", "piano"),
        ("bar return_1 piano bar", None),
    ],
)  # fmt: skip
def test_the_planned_guess_is_aligned_with_the_source(then: str, expected: str | None) -> None:
    assert planned(FIRST + then) == expected


def bars_of(count: int, flute: int, plan: Callable[[int], str]) -> str:
    """Return bars with a plan each, one of them for flute and the others for piano, and NEAR empty bars after them."""
    bars = (f"bar return_new {plan(n)} {'flute' if n == flute else 'piano'} " for n in range(count))
    return f"begin piano flute {''.join(bars)}{NEAR * 'bar '}"


def test_an_unnamed_return_goes_to_the_bar_with_the_most_similar_plan() -> None:
    text = bars_of(6, 3, lambda bar: f"density_{bar} register_{bar}") + "bar return_other "
    assert planned(text + "density_3 register_3") == "flute"
    assert planned(text + "density_1") == "piano"


def test_an_unnamed_return_compares_the_bars_before_too() -> None:
    text = bars_of(12, 6, lambda bar: f"density_{bar if bar in (1, 5) else 3}")
    for density, found in ((5, "flute"), (1, "piano")):
        before = f"bar return_new density_{density} piano bar return_other density_3"
        assert planned(text + before) == found


@pytest.mark.parametrize("copied", [True, False])
def test_an_unnamed_return_continues_a_copy(copied: bool) -> None:
    text = "begin piano flute "
    for number in range(6):
        notes = f"at_0 length_24 loudness_8 pitch_{60 + number} at_24 pitch_62"
        instrument = "flute" if number == 2 else "piano"
        text += f"bar return_new density_{number} register_{number} {instrument} {notes} "
    copy, other = "at_0 length_24 loudness_8 pitch_61 at_24 pitch_62", "at_12 length_12 pitch_70"
    text += NEAR * "bar " + f"bar return_other density_1 piano {copy if copied else other} "
    # The plan is that of the fifth bar, but the copy was of the second.
    found = planned(text + "bar return_other density_4 register_4")
    assert found == ("flute" if copied else "piano")


def test_the_request_can_set_sources() -> None:
    text = "begin piano flute bar flute bar piano bar piano bar return_1"
    assert planned(text) == "piano"
    assert planned(text, sources={3: 0}) == "flute"
    assert planned(text, sources={3: 0}, elsewhere=ids("bar piano at_0 bar piano")) == "flute"


def test_bars_given_ahead_are_no_sources() -> None:
    text = "begin piano flute after bar flute before bar return_1"
    assert planned(text) is None
    assert planned(text + " bar piano bar return_1") == "piano"


def random_music(seed: int, length: int = 400) -> np.ndarray:
    """Return music of few tokens, with plans and many repetitions."""
    tokens = ids(
        "bar piano flute at_0 at_24 length_24 loudness_8 pitch_60 pitch_62 pitch_64 "
        "return_1 return_2 return_new return_other density_2 density_3"
    )
    random = np.random.default_rng(seed)
    music = random.choice(tokens, length)
    for _ in range(12):
        source, to = random.integers(0, length - 40, 2)
        music[to : to + 40] = music[source : source + 40].copy()
    return music


@pytest.mark.parametrize("seed", range(5))
def test_a_match_continues_an_earlier_occurrence(seed: int) -> None:
    music = random_music(seed)
    found = RECALL.begin().take(music)
    heard: list[int] = []
    seen = set()
    matches = 0
    for token, one in zip(music.tolist(), found, strict=True):
        if token < EXTRA_START:
            heard.append(token)
            seen.add(tuple(heard[-MIN_MATCH - 1 :]))
        if one[recall.MATCHED]:
            matches += 1
            assert (*heard[-MIN_MATCH:], int(one[recall.MATCHED]) - 1) in seen
        assert (one[recall.MATCHED] > 0) == (one[recall.MATCHED_LEVEL] > 0)
    assert matches > 40


STATE = (
    "length", "match", "match_length", "cursor", "agreed", "begun", "first_bar", "return_kind", "source",
    "last_copied", "current_part", "limit",
)  # fmt: skip


def any_music(seed: int, config: RecallConfig, size: int, length: int = 1500) -> np.ndarray:
    """Return tokens of any order, of which some are rare, with many repetitions and nearly exact ones."""
    random = np.random.default_rng(seed)
    chances = random.random(size) ** 3
    chances[[config.bar, config.restart]] = chances.sum() / 12, chances.sum() / 400
    music = random.choice(size, length, p=chances / chances.sum())
    for _ in range(length // 20):
        source, to = random.integers(0, length - 50, 2)
        music[to : to + 50] = music[source : source + 50].copy()
        music[to + random.integers(50)] = random.integers(size)
    return music


def song(seed: int, bars: int = 90) -> np.ndarray:
    """Return bars with plans, most of which copy others, exactly or not."""
    random = np.random.default_rng(seed)
    returns = ids("return_new return_1 return_2 return_8 return_other return_other return_other")
    plans = [ids(" ".join(f"{name}_{n}" for n in range(3))) for name in ("density", "register")]
    names = "at_0 at_24 at_48 length_24 length_48 loudness_8 pitch_60 pitch_64 pitch_62 piano flute tempo_95 tempo_65"
    inside, contents, whole = ids(names), [], []
    for bar in range(bars):
        content = random.choice(inside, random.integers(4, 90 if bar % 9 == 5 else 15))
        if bar and random.random() < 0.8:
            back = 1 if random.random() < 0.3 else random.integers(1, bar + 1)
            content = contents[bar - back].copy()
            if random.random() < 0.4:
                content[random.integers(len(content))] = random.choice(inside)
            if random.random() < 0.2:
                content = np.insert(content, random.integers(len(content)), random.choice(inside))
        contents.append(content)
        plan = [random.choice(one, 1) for one in plans if random.random() < 0.9]
        given = [random.choice(returns, 1)] if random.random() < 0.9 else []
        whole += [ids("bar"), *given, *plan, content]
    return np.concatenate(whole)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("config", "size", "music"),
    [
        (TOY_RECALL, TOY_SIZE, lambda seed: any_music(seed, TOY_RECALL, TOY_SIZE)),
        (CONFIG, SIZE, lambda seed: any_music(seed, CONFIG, SIZE)),
        (CONFIG, SIZE, lambda seed: random_music(seed, 1500)),
        (CONFIG, SIZE, song),
    ],
    ids=["toys", "any", "music", "song"],
)
def test_guesses_and_state_are_those_of_plain_python(
    config: RecallConfig, size: int, music: Callable[[int], np.ndarray], seed: int
) -> None:
    """With bars that the request has return to others, bars to avoid, and another limit from some token on."""
    tokens, unlike = music(seed), music(seed + 100)[:200]
    random = np.random.default_rng(seed)
    sources = {int(bar): int(random.integers(90)) for bar in random.integers(1, 90, 20)}
    found = recall_roles(config, size).begin(sources=sources, unlike=unlike.tolist())
    other = PlainRecall(recall_roles(config, size).kinds, len(config.plan))
    wanted = PlainRecall(recall_roles(config, size).kinds, len(config.plan))
    for token in [*unlike.tolist(), config.bar]:
        other.take(token)
    wanted.avoided, wanted.sources = other.hashes[:-1], sources
    for part in np.array_split(tokens, 7):
        guesses = [wanted.take(token) for token in part.tolist()]
        np.testing.assert_array_equal(found.take(part), guesses)
        assert {name: found[name] for name in STATE} == wanted.state(STATE)
        found.adapt_limit()
        wanted.limit = found["limit"]
    table = found.table(0, found["begun"])
    np.testing.assert_array_equal(table[:, recall.COUNT], wanted.counts)
    np.testing.assert_array_equal(table[:, PLAN_LEVELS:], wanted.levels)
    for bar in found.bars():
        ends = [*(start - 1 for start in wanted.starts[1:]), wanted.length]
        own = wanted.ids[wanted.starts[bar] : ends[bar]]
        np.testing.assert_array_equal(found.tokens_of(bar), own)


@pytest.mark.parametrize("seed", range(5))
def test_guesses_do_not_depend_on_later_tokens_or_on_how_tokens_are_cut(seed: int) -> None:
    music = random_music(seed)
    whole = RECALL.begin().take(music)
    one, parts = RECALL.begin(), []
    for cut in np.array_split(music, 90):
        other = one.copy()
        parts.append(one.take(cut))
        np.testing.assert_array_equal(other.take(cut), parts[-1])  # a copy is independent
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (whole[:, recall.PLANNED_LEVEL] > 2).any()


def test_a_model_computes_its_guesses_unless_they_are_given() -> None:
    model, music = toy_model(recall=TOY_RECALL), toy_tokens(2, 60)
    whole = model(music, model.begin(generator()))
    recalled = torch.from_numpy(model.recall.recalled(music.numpy()))  # type: ignore[union-attr]
    torch.testing.assert_close(model(music, model.begin(generator()), recalled), whole)
    nothing = model(music, model.begin(generator()), torch.zeros_like(recalled))
    assert (nothing - whole).abs().max() > 0.01


def test_recall_adds_zeros_before_training() -> None:
    fresh = GuessEmbedding(CONFIG, SIZE, 8)
    found = torch.from_numpy(fresh.recalled(random_music(0)[None]))
    assert found.any()
    assert not fresh(found).any()


def added(one: Recall, rule: Callable[[Recall], rules.Nats]) -> dict[int, float]:
    """Return what a rule adds to which logits."""
    found = {}
    for tokens, nats in rule(one):
        found |= dict.fromkeys(np.atleast_1d(tokens).tolist(), nats)
    return found


def boost(one: Recall) -> tuple[str, float] | None:
    """Return the source's next token and what is added to its logit."""
    found = added(one, rules.follow_the_source)
    assert len(found) < 2
    return next(((VOCABULARY.names[token], nats) for token, nats in found.items()), None)


BAR = "bar piano at_0 length_24 loudness_8 pitch_60 at_24 pitch_62 at_48 pitch_64 at_72 pitch_65 "


@pytest.mark.parametrize("times", [2, 3])
def test_a_bar_is_no_longer_recalled_after_too_many_repetitions(times: int) -> None:
    one = RECALL.begin()
    found = one.take(ids("begin piano " + times * BAR + "bar return_1 piano at_0 length_24"))[-1]
    again = 2 * times - 1 < recall.REPEAT_LIMIT  # within a phrase a repetition counts twice
    assert (found[recall.PLANNED] > 0, found[recall.MATCHED] > 0) == (again, again)
    assert boost(one) == (("loudness_8", rules.NAMED_BOOST[0]) if again else None)
    exhausted = {VOCABULARY.id("return_1"): -rules.EXHAUSTED_PENALTY}
    assert added(one, rules.limit_repetition) == ({} if again else exhausted)
    softer = BAR.replace("loudness_8", "loudness_5")
    found = RECALL.begin().take(ids("begin piano " + times * softer + "bar return_1"))[-1]
    assert (found[recall.PLANNED] > 0) == again


@pytest.mark.parametrize("others", [0, 20])
def test_the_limit_is_lifted_for_a_piece_that_mostly_repeats_one_bar(others: int) -> None:
    other = "".join(f"bar piano at_0 pitch_{pitch} " for pitch in range(40, 40 + others))
    one = RECALL.begin()
    one.take(ids("begin piano " + other + 6 * BAR + "bar"))
    one.adapt_limit()
    found = one.take(ids("return_1 piano at_0 length_24 loudness_8 pitch_60"))[-1]
    assert (found[recall.PLANNED] > 0, found[recall.MATCHED] > 0) == (others == 0,) * 2


@pytest.mark.parametrize("strength", [1.0, 0.5, 0.0])
def test_the_strength_scales_the_boost_of_the_source(strength: float) -> None:
    one, bias = RECALL.begin(strength=strength), np.zeros(SIZE, np.float32)
    one.take(ids("begin piano " + BAR + "bar return_1"))
    rules.add_to(bias, one, 2.0)
    wanted = np.zeros(SIZE, np.float32)
    wanted[VOCABULARY.id("piano")] = 2 * strength * rules.NAMED_BOOST[0]
    np.testing.assert_array_equal(bias, wanted)


@pytest.mark.parametrize("varies", [False, True])
def test_a_requested_source_has_a_constant_boost_but_for_notes_that_vary(varies: bool) -> None:
    one = RECALL.begin(sources={1: 0}, varies=varies)
    one.take(ids("begin piano " + BAR + "bar return_other piano at_0 length_24"))
    assert boost(one) == ("loudness_8", rules.REQUESTED_BOOST[0])
    one.take(ids("loudness_8 pitch_60 at_24"))
    assert boost(one) == ("pitch_62", rules.REQUESTED_BOOST[2 if varies else 1])


def test_a_guessed_source_has_its_own_boost() -> None:
    one, bars = RECALL.begin(), "bar return_new density_3 piano at_0 " * (NEAR + 1)
    one.take(ids(f"begin piano {bars} bar return_other density_3"))
    assert boost(one) == ("piano", rules.GUESSED_BOOST[0])


def other(notes: str, part: str, count: int) -> str:
    """Return bars of a part with other notes, of which no two are equal."""
    return "".join(f"bar return_new {part} at_0 {notes}_{40 + n} " for n in range(count))


@pytest.mark.parametrize(
    ("back", "nats"), [("return_1", rules.NAMED_BOOST), ("return_other", rules.GUESSED_BOOST)]
)
def test_the_boost_changes_when_the_bar_is_aligned_with_its_source(back, nats):
    one, first = RECALL.begin(), BAR.replace("bar", "bar return_new density_3")
    one.take(ids(f"begin piano {first} {other('pitch', 'piano', NEAR)} {BAR}"))
    one.take(ids(f"bar {back} density_3 piano at_0 length_24"))
    assert boost(one) == ("loudness_8", nats[0])
    one.take(ids("loudness_8"))  # now ALIGNED tokens in a row agree
    assert boost(one) == ("pitch_60", nats[2])
    one.take(ids("pitch_60"))
    assert boost(one) == ("at_24", nats[1])
    one.take(ids("at_48"))
    assert boost(one) == ("pitch_64", nats[0])


@pytest.mark.parametrize(("note", "stage"), [("pitch_60", 2), ("pitch_61", 1)])
def test_notes_vary_until_the_part_departs_from_the_source(note: str, stage: int) -> None:
    one = RECALL.begin()
    one.take(
        ids(f"begin piano {other('pitch', 'piano', 4)} {BAR} bar return_1 piano at_0 length_24")
    )
    one.take(ids(f"loudness_8 {note} at_24 pitch_62 at_48 pitch_64 at_72"))
    assert boost(one) == ("pitch_65", rules.NAMED_BOOST[stage])


@pytest.mark.parametrize("looped", [False, True])
def test_loops_that_are_longer_than_given_ones_are_left(looped: bool) -> None:
    one = RECALL.begin()
    one.take(ids(f"begin piano {4 * BAR if looped else other('pitch', 'piano', 8)} bar"))
    assert not added(one, rules.leave_loops)
    one.take(ids(f"piano at_0 pitch_90 {other('pitch', 'piano', 8)} {3 * BAR} bar"))
    near = (VOCABULARY.id(f"return_{back}") for back in (1, 2, 4))
    wanted = {} if looped else dict.fromkeys(near, -2 * rules.LOOP_PENALTY)
    assert added(one, rules.leave_loops) == wanted


@pytest.mark.parametrize(
    ("past", "part", "varies"),
    [
        (other("pitch", "piano", 8), "piano", True),
        (8 * BAR, "piano", False),
        (8 * BAR.replace("piano", "flute"), "piano", True),
        (other("drum", "drums", 8), "drums", False),
    ],
)
def test_parts_that_repeat_themselves_exactly_and_drums_are_not_varied(past, part, varies):
    one, again = RECALL.begin(), BAR.replace("piano", part)
    if part == "drums":
        again = again.replace("length_24 ", "").replace("pitch", "drum")
    one.take(ids(f"begin piano flute drums {past} {again}"))
    one.adapt_limit()
    one.take(ids(again.replace("bar", "bar return_1").rsplit(" ", 2)[0]))
    found = boost(one)
    assert found is not None
    assert found[1] == rules.NAMED_BOOST[2 if varies else 1]


@pytest.mark.parametrize(
    ("given", "lengths", "drums", "nats", "music"),
    [
        (0, 1, "", rules.NAMED_BOOST[2] + rules.ALONE, rules.PERFORMANCE),  # without a prompt
        (9, 1, "", rules.NAMED_BOOST[1], rules.SCORE),
        (9, 9, "", rules.NAMED_BOOST[2], rules.PERFORMANCE),
        (9, 1, "drums at_0 drum_36", rules.NAMED_BOOST[2], rules.BAND),
    ],
)
def test_notes_vary_most_without_a_prompt_and_not_in_scores(given, lengths, drums, nats, music):
    """Min-p limits the chords of performances, of scores a little, and of bands not at all."""
    one, names = RECALL.begin(), [name for name in VOCABULARY.names if name.startswith("length_")]
    past = (f"bar piano at_0 {names[n % lengths]} pitch_{40 + n} {drums} " for n in range(9))
    one.take(ids(f"begin piano {''.join(past)} {BAR} bar return_1 piano at_0"))
    one.given = given
    one.take(ids("length_24 loudness_8"))
    assert boost(one) == ("pitch_60", nats)
    assert rules.limit_of_chords(one) == rules.LIMIT_OF_CHORDS[music]
    assert list(rules.LIMIT_OF_CHORDS.values()) == sorted(rules.LIMIT_OF_CHORDS.values())[::-1]


@pytest.mark.parametrize(
    ("text", "how", "share"),
    [
        ("begin piano drums " + BAR + "bar", {}, RECALL_OF_BANDS),
        ("begin piano " + BAR + "bar", {}, 1),  # no band
        ("begin piano drums bar", {}, 1),  # a new piece, of which only the head has drums
        ("begin piano drums " + BAR + "bar", {"sources": {1: 0}}, 1),  # a return is asked for
    ],
)
def test_bands_that_go_on_recall_less(text, how, share):
    config = SimpleNamespace(
        recall=CONFIG, vocabulary_size=SIZE, position=SimpleNamespace(check=lambda length: None)
    )
    network: Any = SimpleNamespace(config=config, kernel=RECALL.kernel, begin=lambda seed: None)
    asked = Request(sampling=Sampling(recall=0.5))
    found = Batch(network).begin(Order(request=asked, ids=ids(text), grammar=None, **how))
    assert found.recall is not None
    assert found.recall.strength == 0.5 * share


def test_replaced_bars_are_not_recalled() -> None:
    text = "begin piano " + BAR + BAR.replace("pitch_60", "pitch_48") + "bar return_2"
    replaced = ids(BAR.replace("loudness_8", "loudness_3"))
    assert planned(text) == "piano"
    assert planned(text, unlike=replaced) is None
    other = text.replace("bar return_2", "bar return_1")
    assert planned(other, unlike=replaced) == "piano"
