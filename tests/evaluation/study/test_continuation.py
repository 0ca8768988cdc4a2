"""Continuations of toy pieces in two styles, compared with passages of known similarity."""

from pathlib import Path

import numpy as np

from evaluation.metrics.style import QUARTER_NAMES
from evaluation.study.continuation import looped, measure_continuation
from evaluation.study.experiments import Experiment, conduct, models_of
from evaluation.study.piece_jobs import Choice, piece_experiment
from evaluation.tables import table_of
from tests.evaluation.scores import BASS, DRUMS, OTHER, trio
from tests.evaluation.toys import write_model
from tokenization.language import language
from tokenization.score import Score
from training.data.writer import PreparedWriter

STYLES = {"march": (12, 24), "waltz-like": (8, 16)}  # steps between notes of the bass and the other
HOW = {"prompt_bars": 2, "tokens": 140, "samples": 2, "temperature": 0.6}


def continuation(models: list, choice: Choice, **changes: int) -> Experiment:
    how = {"fewest_bars": 3, "with_others": True, **HOW, **changes}
    return piece_experiment("continuation", measure_continuation, models, choice, **how)


def piece(style: str, root: int, bars: int = 6) -> Score:
    """Return a trio that plays a style on a root note: about 30 tokens per bar."""
    bass, other = STYLES[style]
    end = 48 * bars
    rows = [(at, bass // 2, root + 7 * (at % 48 > 20), BASS) for at in range(0, end, bass)]
    rows += [(at, 1, 36 if at % 24 else 38, DRUMS) for at in range(0, end, 12)]
    rows += [(at, other - 2, root + 24 + at % 5, OTHER) for at in range(0, end, other)]
    return trio(rows)


def test_reference_passages_bound_the_scores(tmp_path: Path):
    """The set has two pieces in each style, and one of two bars."""
    groove = language("groove")
    with PreparedWriter(tmp_path / "data", replace=False) as writer:
        for number, (name, bars) in enumerate([*[(name, 6) for name in STYLES] * 2, ("march", 2)]):
            encoded = groove.encode(groove.arrange(piece(name, 36 + number, bars)))
            writer.add(f"piece{number}", [encoded], split="test", style=name)
        source = {"name": "test", "title": "test pieces", "licence": "MIT"}
        vocabulary = groove.vocabulary.to_json()
        writer.commit({"language": groove.spec(), "vocabulary": vocabulary, "source": source})
    kinds = {"first": "rope", "second": "absolute"}
    models = models_of([write_model(tmp_path / name, "groove", kinds[name]) for name in kinds])
    choice = Choice(data=str(tmp_path / "data"), pieces=9, split="test", seed=0, device="cpu")
    made = {"continuation": continuation(models, choice)}
    results, failures = conduct(made, folder=tmp_path / "kept")
    assert failures == []
    result = results["continuation"]
    assert result["pieces"] == 4  # one has no music after the prompt
    assert [model["model"] for model in result["models"]] == ["first", "second"]
    found = {row["measure"]: row for row in result["models"][0]["table"]}
    assert len(found) == 2 * len(QUARTER_NAMES) * 3 + 2
    for metric in ("onset–duration", "onset–drum"):
        row = found[f"to the prompt, whole: {metric}"]
        assert (row["pieces"], row["written"]["n"]) == (4, 2)  # each style counts once
        assert row["looped"]["mean"] > 0.95
        assert row["real"]["mean"] > 0.8
        # The drums of the two styles are the same; their basses are not.
        other = row["other"]["mean"]
        assert other < 0.6 if metric == "onset–duration" else other > 0.9
    assert found["to the piece, whole: onset–duration"]["real"]["mean"] > 0.9
    assert found["copied from the prompt"]["written"]["mean"] < 0.1
    assert found["diversity of samples"]["written"]["mean"] > 0.5
    assert found["diversity of samples"]["looped"]["mean"] is None
    table = table_of("continuation", result)
    assert {len(row) for row in table.rows} == {len(table.head)}
    again, _ = conduct(made, folder=tmp_path / "kept")
    assert again == results
    long, (failure, *_) = conduct({"x": continuation(models[:1], choice, tokens=20)})
    assert "tokens, which leaves none of the 20 to write" in failure
    assert long["x"]["models"] == []


def test_a_prompt_is_repeated_up_to_a_time():
    prompt = trio([(0, 12, 60, OTHER), (24, 12, 62, OTHER)])
    notes = looped(prompt, 48, 100).notes
    np.testing.assert_array_equal(notes.onset_ticks, [0, 24, 48, 72, 96])
    np.testing.assert_array_equal(notes.pitch, [60, 62, 60, 62, 60])
