import json
from pathlib import Path

import pytest

from app.cli import main
from app.commands.train import train
from musicgen.checkpoint import read_card
from tests.training.makers import TOY, toy_file
from training.config import RunConfig


@pytest.fixture(scope="module")
def two(shared_set, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Return arguments that compare two configurations; the first two are their paths."""
    folder = tmp_path_factory.mktemp("configurations")
    paths = []
    for position in ("none", "rope"):
        path = toy_file(folder / position, shared_set("remi"), model={"position": position})
        paths.append(path.rename(folder / f"{position}.yaml"))
    return [*paths, "--steps", 4, "--seeds", 2, "--set", f"model.preset={TOY['model']['preset']}"]


@pytest.fixture(scope="module")
def compared(two, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a comparison, which tests must not change."""
    out = tmp_path_factory.mktemp("compared") / "out"
    assert main(["compare", *map(str, two), "-o", str(out)]) == 0
    return out


def test_runs_are_trained_on_one_budget_paired_by_seed_and_tabulated(two, compared, command):
    text = command("compare", *two, "-o", compared).out  # nothing is left to do
    assert max(map(len, text.splitlines())) <= 80
    rows = (compared / "comparison.md").read_text().splitlines()[2:]
    assert {line.split(" | ")[0] for line in rows} == {"| none", "| rope"}
    assert all(row.split(" | ")[4] in text for row in rows)  # the losses
    assert (compared / "comparison.png").exists()
    out, err = command("compare", *two, "-o", compared, "--json")
    none, rope = sorted(json.loads(out), key=lambda row: row["name"])
    assert [(row["steps"], row["seeds"]) for row in (none, rope)] == [(4, 2), (4, 2)]
    assert none["change"] is None
    assert rope["change"] == pytest.approx(rope["inside"] - none["inside"])
    assert rope["change_interval"] > 0
    assert [line for line in err.splitlines() if ", seed " in line] == [
        "1 of 4: none, seed 1", "2 of 4: rope, seed 1", "3 of 4: none, seed 2", "4 of 4: rope, seed 2",
    ]  # fmt: skip
    assert err.count("Resuming from step 4 of 4.") == 4


def test_a_failed_run_is_a_row_and_others_are_trained(two, tmp_path: Path, command, monkeypatch):
    def trained(config: RunConfig, *, resume: bool) -> None:
        if Path(config.run).name == "none":
            raise RuntimeError("out of memory")
        train(config, resume=resume)

    monkeypatch.setattr("app.commands.compare.train", trained)
    out, err = command("compare", *two, "--seeds", 1, "-o", tmp_path / "out", "--json")
    found = [(row["name"], row["failed"]) for row in json.loads(out)]
    assert found == [("rope", ""), ("none", "out of memory")]
    assert "none failed: out of memory" in err


def test_runs_are_named_after_their_folders_and_must_differ(two, tmp_path: Path, command, refused):
    runs, out = [tmp_path / "a", tmp_path / "b"], ["-o", tmp_path / "out"]
    for run in runs:
        run.mkdir()
        (run / "config.yaml").write_text(two[0].read_text())
    rows = json.loads(command("compare", *runs, *two[2:], *out, "--seeds", 1, "--json").out)
    assert {row["name"] for row in rows} == {"a", "b"}
    mine = tmp_path / "rope.yaml"
    mine.write_text(two[0].read_text())
    said = refused("compare", mine, *two[1:], *out)
    assert "would both be called rope; rename one of them" in said


def test_runs_that_cannot_be_compared_are_refused(two, tmp_path: Path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the data of the configurations are missing
    for words, says in (
        (["groove-rope", "pop-piano-rope"], "runs on several data sets (data/groove; data/pop-p"),
        (["grove-*"], "no shipped configuration has a name like grove-*"),
        (["groove-*"], "there is no prepared data set data/groove"),
        ([*two, "--seeds", 0], "--seeds is 0; it must be 1 or more"),
    ):
        assert says in refused("compare", *words, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_of_other_settings_are_not_replaced(two, compared: Path, command, refused):
    words = ["compare", *two, "-o", compared, "--set"]
    for change in ("optimiser.learning_rate=0.001", "optimiser.steps=8"):
        said = refused(*words, change)
        assert "has a run with other settings (optimiser." in said
        assert "name another folder with -o" in said
    command(*words, "log_every=1")  # which changes no result


def test_runs_of_equal_processor_time_end_with_a_tail_and_are_not_repeated(
    two, tmp_path: Path, command, monkeypatch
):
    given = [*two, "--seconds", 1, "--seeds", 1, "--set", "optimiser.schedule=hold"]
    first = command("compare", *given, "-o", tmp_path / "out", "--json").out
    rows = json.loads(first)
    assert [row["failed"] for row in rows] == ["", ""]
    for row in rows:
        card = read_card(tmp_path / "out" / row["name"] / "model")[1].training
        assert (row["steps"], row["inside"]) == (card["steps"], card["validation_loss"])
        assert 0 < card["tail_from"] < card["steps"]
    monkeypatch.setattr("app.commands.compare.train", None)
    assert command("compare", *given, "-o", tmp_path / "out", "--json").out == first
