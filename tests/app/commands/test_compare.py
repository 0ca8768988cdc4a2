import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from app.cli import main
from app.commands.compare import check_table
from app.commands.train import train
from musicgen.storage import checkpoint
from tests.training.makers import TOY, prepared_set, toy_file
from training.config import RunConfig
from training.results.comparison import Repeated, write_comparison


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Return options that compare two configurations."""
    data = prepared_set(tmp_path / "data", "remi")
    paths = []
    for position in ("none", "rope"):
        path = toy_file(tmp_path / position, data, model={"position": position})
        paths.append(str(path.rename(tmp_path / f"{position}.yaml")))
    return [
        *paths,
        "-o",
        str(tmp_path / "out"),
        "--steps",
        "4",
        "--preset",
        str(TOY["model"]["preset"]),
    ]


def test_all_are_trained_by_one_budget_and_tabulated(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", *two]) == 0
    text = capsys.readouterr().out
    assert text == (tmp_path / "out" / "comparison.md").read_text()
    assert {line.split(" | ")[0] for line in text.splitlines()[2:]} == {"| none", "| rope"}
    assert (tmp_path / "out" / "comparison.png").exists()
    assert main(["compare", *two, "--json"]) == 0  # nothing is left to do
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert [row["steps"] for row in rows] == [4, 4]
    assert rows[0]["inside"] <= rows[1]["inside"]
    assert said.err.count("Going on from step 4 of 4.") == 2


def test_the_headline_is_compared_beside_the_papers_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = prepared_set(tmp_path / "data", "remi")
    sizes = {
        "model.layers": 1, "model.width": 16, "model.heads": 2, "model.feedforward": 16,
        "model.features.features": 4, "data.folder": data, "data.length": 16,
        "validation.length": 64, "validation.sequences": 2,
    }  # fmt: skip
    changes = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
    options = ["--steps", "2", "-o", str(tmp_path / "out"), *changes]
    assert main(["compare", "headline/*", *options]) == 0
    said = capsys.readouterr().out
    names = ["absolute", "conv-spe", "conv-spe-ungated", "none", "sine-spe", "sine-spe-ungated"]
    for name in names:
        assert f"| headline-{name} |" in said
    theirs = {
        line.split()[0]: line.split()[1:] for line in said.split("table 6")[1].splitlines()[2:]
    }
    assert sorted(theirs) == sorted(names)
    assert theirs["absolute"][:3] == ["1.721", "3.215", "+1.494"]
    assert len(theirs["none"]) == 3  # the row that the paper lacks is ours alone


def test_one_that_fails_is_a_row_and_the_rest_goes_on(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = Path(two[0])
    path.write_text(path.read_text().replace("learning_rate: 0.01", "learning_rate: 1.0e+30"))
    assert main(["compare", *two, "--json", "--set", "optimiser.warmup=0"]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert rows[0]["name"] == "rope"
    assert "not finite" in rows[1]["failed"]
    assert "none failed: the loss was not finite" in said.err


def test_a_full_disk_ends_all_of_it(
    two: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(config: RunConfig, *, resume: bool) -> None:
        raise OSError(f"the disk of {config.run} is full")

    monkeypatch.setattr("app.commands.compare.train", full)
    assert main(["compare", *two]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("musicgen: the disk of ")


def test_so_is_one_for_which_the_memory_does_not_suffice(
    two: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def trained(config: RunConfig, *, resume: bool) -> None:
        if Path(config.run).name == "none":
            raise RuntimeError("out of memory")
        train(config, resume=resume)

    monkeypatch.setattr("app.commands.compare.train", trained)
    assert main(["compare", *two, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["failed"]) for row in rows] == [
        ("rope", ""),
        ("none", "out of memory"),
    ]


def test_runs_are_named_like_their_folders_and_differ(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(Path(two[0]).read_text())
    runs, options = [str(tmp_path / "a"), str(tmp_path / "b")], [*two[2:], "--json"]
    assert main(["compare", *runs, *options]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} == {"a", "b"}
    (tmp_path / "mine").mkdir()
    mine = Path(two[0]).rename(tmp_path / "mine" / "rope.yaml")
    assert main(["compare", str(mine), *two[1:]]) == 2
    assert "would both be called rope; rename one of them" in capsys.readouterr().err


def test_what_learns_on_from_a_start_has_the_size_of_the_start(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", *two]) == 0  # what is learned on from
    for name, rate in (("slow", 0.001), ("fast", 0.01)):
        values = yaml.safe_load(Path(two[0]).read_text())
        del values["model"]
        values["start"] = str(tmp_path / "out" / "none")
        values["optimiser"]["learning_rate"] = rate
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(values))
    on = [str(tmp_path / "slow.yaml"), str(tmp_path / "fast.yaml"), "-o", str(tmp_path / "on")]
    capsys.readouterr()
    assert main(["compare", *on, "--steps", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["failed"] for row in rows] == ["", ""]
    start = checkpoint.read_card(tmp_path / "out" / "none" / "model")[0]
    assert checkpoint.read_card(tmp_path / "on" / "slow" / "model")[0] == start


def test_what_does_not_compare_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # where the data that configurations name are not at hand
    out = ["-o", str(tmp_path / "out")]
    assert main(["compare", "groove-rope", "pop-piano-rope", *out]) == 2
    assert "runs on several data sets (data/groove; data/pop-piano)" in capsys.readouterr().err
    assert main(["compare", "grove-*", *out]) == 2
    assert "no shipped configuration has a name like grove-*" in capsys.readouterr().err
    assert main(["compare", "groove-*", *out]) == 2
    assert "there is no prepared data set data/groove" in capsys.readouterr().err
    data = f"data.folder={prepared_set(tmp_path / 'set', 'groove')}"
    assert main(["compare", "groove-*", *out, "--set", data, "--preset", "huge"]) == 2
    assert "there is no preset 'huge'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_comparison_without_a_folder_comes_back_to_its_own(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    asked = [word for word in two if word not in ("-o", str(tmp_path / "out"))]
    assert main(["compare", *asked]) == 0
    table = (tmp_path / "compare" / "comparison.md").read_text()
    assert main(["compare", *asked, "--json"]) == 0
    assert capsys.readouterr().err.count("Going on from step 4 of 4.") == 2
    assert main(["compare", *asked[:1], *asked[2:]]) == 0  # another request
    assert (tmp_path / "compare" / "comparison.md").read_text() == table
    assert (tmp_path / "compare-2" / "comparison.md").exists()
    assert not (tmp_path / "compare-3").exists()


def test_several_seeds_are_paired_and_go_on(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", *two, "--seeds", "2", "--json"]) == 0
    said = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(said.out)}
    assert [line for line in said.err.splitlines() if ", seed " in line] == [
        "1 of 4: none, seed 1", "2 of 4: rope, seed 1", "3 of 4: none, seed 2", "4 of 4: rope, seed 2",
    ]  # fmt: skip
    assert rows["rope"]["against"] == "none"
    assert rows["none"]["against"] == ""
    assert rows["rope"]["seeds"] == 2
    difference = rows["rope"]["inside"] - rows["none"]["inside"]
    assert rows["rope"]["change"] == pytest.approx(difference)
    assert rows["rope"]["change_interval"] > 0
    assert (tmp_path / "out" / "rope" / "seed-2" / "model").is_dir()
    assert (tmp_path / "out" / "comparison.png").exists()
    assert main(["compare", *two, "--seeds", "2"]) == 0  # nothing is left to do
    again = capsys.readouterr()
    assert again.err.count("Going on from step 4 of 4.") == 4
    assert "| rope | 2 |" in again.out


def test_runs_of_other_settings_are_not_tabulated_as_those_that_are_asked_for(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", *two]) == 0
    table = (tmp_path / "out" / "comparison.md").read_text()
    capsys.readouterr()
    for change in (["--set", "optimiser.learning_rate=0.001"], ["--set", "optimiser.steps=8"]):
        assert main(["compare", *two, *change]) == 2
        said = capsys.readouterr().err
        assert "out/none holds a run of other settings (optimiser." in said
        assert "name another folder with -o" in said
    assert (tmp_path / "out" / "comparison.md").read_text() == table
    assert main(["compare", *two, "--set", "log_every=1"]) == 0  # which changes no result


def test_the_table_of_another_comparison_is_not_replaced(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    none, rope, *options = two
    assert main(["compare", none, *options]) == 0
    files = {path: path.read_bytes() for path in (tmp_path / "out").glob("comparison.*")}
    assert len(files) == 3
    capsys.readouterr()
    for words in ([rope, *options], [none, *options, "--seeds", "2"]):
        assert main(["compare", *words]) == 2
        assert capsys.readouterr().err == (
            f"musicgen: {tmp_path / 'out'} holds the table of another comparison, whose rows would be lost "
            "(none): name another folder with -o\n"
        )
    assert {path: path.read_bytes() for path in files} == files
    assert not (tmp_path / "out" / "rope").exists()
    assert main(["compare", *two]) == 0  # which has its row, and one more
    assert "| rope |" in (tmp_path / "out" / "comparison.md").read_text()


@pytest.mark.parametrize(
    ("named", "seeds", "lost"),
    [
        (("a", "b"), 3, ""),
        (("a", "b"), 4, ""),
        (("a", "b", "c"), 3, ""),
        (("a",), 3, "b of 1 seed"),
        (("a", "b"), 2, "a of 3 seeds"),
        (("a", "b"), None, "a of 3 seeds and b of 1 seed"),
    ],
)
def test_rows_of_more_seeds_are_kept(
    named: tuple[str, ...], seeds: int | None, lost: str, tmp_path: Path
):
    write_comparison([Repeated(name="a", seeds=3), Repeated(name="b", seeds=1)], tmp_path)
    wanted = pytest.raises(ValueError, match=rf"lost \({lost}\): name") if lost else nullcontext()
    with wanted:
        check_table(tmp_path, named, seeds)


def test_no_seeds_are_refused(two: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["compare", *two, "--seeds", "0"]) == 2
    assert "--seeds is 0; it must be 1 or more" in capsys.readouterr().err
