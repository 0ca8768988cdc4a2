"""Whole benchmarks of about a second: learning, reproducibility, resuming and errors."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import main
from evaluation.benchmarks.files import Corpus
from evaluation.benchmarks.run import Row, benchmark, edges, result_table
from evaluation.benchmarks.tasks import BenchmarkData, Recipe, Sizes, data_of
from evaluation.benchmarks.training import Examples
from tests.training.makers import prepared_set
from tokenization.prepared import Prepared

TINY = Recipe(
    task="text",
    about="Our own.",
    model={"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "dropout": 0.0,
           "features": {"name": "favor", "features": 16}},
    optimiser={"steps": 120, "batch": 16, "learning_rate": 0.01, "warmup": 5},
    data=Sizes(length=16, past=2, sequences=4),
    encoding={"all": {"realisations": 4, "taps": 4}},
)  # fmt: skip


def with_optimiser(given: Recipe, **changes: Any) -> Recipe:
    return replace(given, optimiser={**given.optimiser, **changes})


def which_is_first(count: int, seed: int) -> Examples:
    """Return sequences with a 1 and a 2 among zeros; the class is which of the two comes first."""
    random = np.random.default_rng(seed)
    inputs, labels = np.zeros((count, 8), dtype=np.uint8), random.integers(2, size=count)
    for row, label in zip(inputs, labels, strict=True):
        row[sorted(random.choice(8, 2, replace=False))] = [1, 2] if label else [2, 1]
    return Examples(inputs=list(inputs), labels=labels)


DATA = BenchmarkData(
    train=which_is_first(400, 0), test=which_is_first(200, 1), classes=2, vocabulary=3,
    rules={"most common class": 0.5},
)  # fmt: skip


def measured(given: Recipe = TINY, data: BenchmarkData = DATA, *encodings: str, **more: Any):
    """Return the rows by encoding, and the first progress reported."""
    told: list[tuple[int, int]] = []
    rows = benchmark(
        given, data, encodings=encodings or ["none", "absolute"], device="cpu",
        **{"seeds": 1, "folder": None, **more}, progress=lambda *now: told.append(now),
    )  # fmt: skip
    return {row.encoding: row for row in rows}, told[0]


def test_order_is_learned_with_an_encoding_and_not_without() -> None:
    longer = with_optimiser(TINY, steps=240)
    rows = measured(longer, DATA, "absolute", "none")[0].values()
    absolute, none = (row.mean("accuracy")[0] for row in rows)
    assert absolute > 0.9
    assert none < 0.65


def test_results_are_reproducible_and_a_benchmark_resumes(tmp_path: Path) -> None:
    short = with_optimiser(TINY, steps=3)
    whole, begun = measured(short, seeds=2)
    assert begun == (0, 4)
    first, _ = measured(short, folder=tmp_path)
    again, begun = measured(short, folder=tmp_path, seeds=2)
    assert begun == (2, 4)
    for name, row in whole.items():
        assert row.values == again[name].values
        assert first[name].values == row.values[:1]
    assert measured(short, folder=tmp_path, seeds=2)[1] == (4, 4)
    assert measured(with_optimiser(TINY, steps=2), folder=tmp_path)[1] == (0, 2)


def test_text_is_predicted_past_the_trained_length() -> None:
    """The perplexity of a repetitive text approaches 1."""
    ids = np.tile(np.arange(6, dtype=np.uint8), 300)
    corpus = Corpus(train=ids, test=ids, vocabulary=6)
    text = BenchmarkData(corpus=corpus, vocabulary=6)
    (found,) = measured(TINY, text, "none")[0]["none"].values
    assert list(found) == ["0–4", "4–8", "8–16", "16–24", "24–32"]
    assert found["16–24"] < 1.2
    assert edges(512, 4, 256) == [0, 256, 512, 768, 1024, 1536, 2048]


def test_music_of_a_set_is_read_and_training_limited_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepared_set(tmp_path / "set", "ensemble", tested=2)
    music = data_of("music", folder, TINY.data, lambda done, total: None)
    prepared = Prepared.open(folder)
    wanted = [prepared.ids(int(row)) for row in prepared.rows("test")[::2]]  # two rows per piece
    assert music.corpus is not None
    assert np.array_equal(music.corpus.test, np.concatenate(wanted))
    spent = iter(range(100))
    monkeypatch.setattr(time, "process_time", lambda: next(spent))
    timed = with_optimiser(TINY, steps=1, seconds=8)
    rows, _ = measured(timed, music, "none", "metre_recall")
    for row in rows.values():
        assert row.values[0].pop("steps") == 7  # a second each, after the first reading
        assert all(np.isfinite([*row.values[0].values()]))
    text = replace(music, language=None)
    assert "use the task music" in measured(timed, text, "recall")[0]["recall"].failed
    with pytest.raises(ValueError, match="more than 1,000,000 and 4,000,000 are needed"):
        data_of("music", folder, Sizes(length=1_000_000), lambda done, total: None)


def row_of(encoding: str, *accuracies: float) -> Row:
    values = tuple({"accuracy": accuracy} for accuracy in accuracies)
    return Row(encoding=encoding, parameters=7, values=values)


def test_means_and_paired_changes_have_students_interval() -> None:
    none, absolute = row_of("none", 0.2, 0.5, 0.8), row_of("absolute", 0.3, 0.6, 0.9)
    mean, half = none.mean("accuracy")
    assert (mean, half) == (pytest.approx(0.5), pytest.approx(4.302653 * 0.3 / 3**0.5, rel=1e-5))
    assert row_of("x", 0.5).mean("accuracy") == (0.5, None)
    head, *lines = result_table([none, absolute], {"rule": 0.5})
    assert [line[0] for line in lines] == ["absolute", "none", "rule"]
    place = head.index("accuracy, %: change from none")
    assert [line[place] for line in lines] == ["+10.00 ± 0.00", "–", "–"]
    assert all(len(line) == len(head) for line in lines)
    assert "change from none" not in " ".join(result_table([absolute], {})[0])
    none, absolute = (
        replace(row, values=({"0–4": 2.0, "4–8": x},)) for row, x in ((none, 3.0), (absolute, 2.5))
    )
    head, *lines = result_table([none, absolute], {})
    place = head.index("perplexity 4–8: change from none")
    assert [(line[0], line[place]) for line in lines] == [("absolute", "-0.500"), ("none", "–")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("lisops", "there is no task 'lisops' (did you mean 'listops'?)"),
        ("points --recipe nothing", "there is no recipe 'nothing'"),
        ("listops --encodings foo --seeds 1", "there is no encoding 'foo'"),
        ("points --seeds 0", "--seeds is 0; it must be 1 or more"),
        ("points --seconds 0", "--seconds is 0; it must be 1 or more"),
        ("points --short --encodings learned --steps 0", "no encoding could be measured"),
    ],
)
def test_a_wrong_request_is_reported_in_one_line(words: str, message: str, capsys) -> None:
    assert main(["benchmark", *words.split()]) == 2
    assert message in capsys.readouterr().err
