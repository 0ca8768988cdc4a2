"""`musicgen evaluate extrapolation`, `positions` and `report` with toy models of two languages."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from app.cli import main
from evaluation.continuation import experiment
from evaluation.study import experiments
from evaluation.study.models import models_of
from tests.app.toy_models import write_model
from tests.evaluation.continuation.toys import write_pieces
from tests.training.makers import prepared_set
from tokenization.prepared import Prepared

QUICK = ("--device", "cpu", "--workers", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two data sets, pieces to continue, and models: ape, sine (remi) and trio (groove)."""
    folder = tmp_path_factory.mktemp("study")
    prepared_set(folder / "remi", "remi", held_out=3)
    prepared_set(folder / "groove", "groove", held_out=2)
    write_pieces(folder / "midi")
    write_model(folder / "ape", "remi", "absolute")
    write_model(folder / "sine", "remi", "sine_spe")
    write_model(folder / "trio", "groove", "sine_spe")
    return folder


def evaluate(*arguments: object, code: int = 0) -> None:
    assert main(["evaluate", *map(str, arguments), *QUICK]) == code


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_losses_of_the_models_that_speak_the_data(place: Path, tmp_path: Path, capsys):
    models = [place / name for name in ("ape", "sine", "trio")]
    options = ("--data", place / "remi", "--pieces", "3", "-o", tmp_path / "out")
    evaluate("extrapolation", *models, *options, "--json")
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert f"left out of {place / 'remi'}, which is in remi, for speaking groove: trio" in err
    assert [model["model"] for model in result["models"]] == ["ape", "sine"]
    assert result["length"] == 64
    for model in result["models"]:
        assert len(model["sha256"]) == 64
        assert model["parts"]["trained"]["stop"] == 16
        assert model["parts"]["trained"]["pieces"] == 3
        assert {"apart", "growth", "drift"} <= model.keys()
    rows = read_csv(tmp_path / "out" / "extrapolation.csv")
    assert {row["model"] for row in rows} == {"ape", "sine"}
    assert {"mean", "deviation", "pieces", "sha256", "data"} <= rows[0].keys()
    for name in (
        "extrapolation.png",
        "extrapolation.svg",
        "extrapolation.json",
        "extrapolation_by_position.csv",
    ):
        assert (tmp_path / "out" / name).stat().st_size > 100


def test_the_table_of_losses(place: Path, capsys):
    evaluate(
        "extrapolation",
        place / "sine",
        "untrained:tiny",
        "--data",
        place / "remi",
        "--length",
        40,
        "--pieces",
        2,
    )
    out, err = capsys.readouterr()
    caption, head, sine, untrained = out.splitlines()
    assert caption.startswith("Loss in nats a token")
    assert head.split()[:2] == ["model", "trained"]
    assert "1 … 16" in sine
    assert "25 … 40" in sine
    assert "1 … 40" in untrained
    assert "2 pieces" in err


def test_the_table_of_one_piece_has_no_spread(place: Path, tmp_path: Path, capsys):
    options = ("--data", place / "remi", "--pieces", 1, "-o", tmp_path / "out")
    evaluate("extrapolation", place / "ape", place / "sine", *options)
    out, _ = capsys.readouterr()
    assert "(1)" in out.splitlines()[-1]
    assert "±" not in "".join(out.splitlines()[1:])
    assert {row["deviation"] for row in read_csv(tmp_path / "out" / "extrapolation.csv")} == {""}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("trio", "--data", "remi"), "which none of the models speaks"),
        (("ape", "--data", "remi", "--length", "0"), "--length is 0"),
        (("ape", "--data", "remi", "--seed", "-1"), "--seed: '-1' is no seed"),
        (("ape", "--data", "nowhere"), "there is no prepared data set"),
        (("nobody", "--data", "remi"), "there is no model 'nobody'"),
        (("ape", "--data", "remi", "--split", "test"), "has no piece in its test split"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(place, arguments, says, monkeypatch, capsys):
    monkeypatch.chdir(place)
    evaluate("extrapolation", *arguments, code=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_positions_are_probed_and_drawn(place: Path, tmp_path: Path, capsys):
    evaluate("positions", place / "ape", place / "sine", "--tokens", 5, "-o", tmp_path / "out")
    out, _ = capsys.readouterr()
    caption, models, metrics, *ranges = out.splitlines()
    assert caption.startswith("T: translation invariance, M: monotonicity")
    assert (models.split(), metrics.split()) == (["model", "ape", "sine"], ["T", "M", "T", "M"])
    assert len(ranges) == 9
    result = json.loads((tmp_path / "out" / "positions.json").read_text())
    assert [len(model["probes"]["table"]) for model in result["models"]] == [18, 18]
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {
        "probes.png", "attention-ape.png", "attention-sine.png", "look_back-ape.png",
        "look_back-sine.png", "templates-sine.png", "all_templates-sine.png",
    }  # fmt: skip


def test_pictures_of_models_with_names_alike_stand_beside_each_other(place: Path, tmp_path: Path):
    for name in ("a b", "a-b"):
        shutil.copytree(place / "ape", tmp_path / name)
    evaluate("positions", tmp_path / "a b", tmp_path / "a-b", "--tokens", 5, "-o", tmp_path / "out")
    names = sorted(
        path.name.rpartition("a-b")[2] for path in (tmp_path / "out").glob("attention-*")
    )
    assert names == ["-2.png", ".png"]


@pytest.mark.parametrize(
    ("knows", "name", "takes"),
    [
        ({"data": "test pieces", "checksum": "of b"}, "one", "b"),
        ({"data": "test pieces", "checksum": "of none"}, "one", "a"),
        ({"data": "other pieces"}, "b", "b"),
    ],
)
def test_a_model_is_tried_on_what_it_learned_from(
    knows, name: str, takes: str, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    prepared_set(tmp_path / "data" / "a", "remi")
    prepared_set(tmp_path / "data" / "b", "remi", train=9)
    prepared_set(tmp_path / "data" / "0", "groove")
    (tmp_path / "data" / "1").mkdir()
    (tmp_path / "data" / "1" / "meta.json").write_text("{}")
    if knows.get("checksum") == "of b":
        knows = {**knows, "checksum": Prepared.open("data/b").meta["checksum"]}
    model = write_model(tmp_path / name, "remi", "absolute", **knows)
    evaluate("extrapolation", model)
    assert f"2 pieces of data/{takes}" in capsys.readouterr().err


def test_of_several_sets_that_a_model_learned_from_the_first_that_holds_pieces_out_is_taken(
    tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name, title, held_out in (("a", "Songs", 1), ("b", "Folk", 1), ("c", "Etudes, op. 10", 0)):
        prepared_set(tmp_path / "data" / name, "remi", held_out=held_out)
        meta = tmp_path / "data" / name / "meta.json"
        meta.write_text(meta.read_text().replace("test pieces", title))
    model = write_model(tmp_path / "one", "remi", "absolute", data="Etudes, op. 10, Folk, Songs")
    evaluate("extrapolation", model)
    assert "1 piece of data/b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("title", "says"),
    [
        ("POP909", "`musicgen data pop909 SOURCE data/pop909-remi --language remi` prepares it"),
        ("songs of mine", "`musicgen data midi SOURCE data/midi-remi --language remi` prepares it"),
        (None, "has learned from no data; name a prepared data set with --data"),
    ],
)
def test_data_that_is_not_here_is_asked_for(title, says: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    knows = {} if title is None else {"data": title}
    evaluate("extrapolation", write_model(Path("one"), "remi", "absolute", **knows), code=2)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_a_report_takes_what_is_here_and_overwrites_none(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepared_set(tmp_path / "data" / "mine", "remi")
    known = write_model(Path("known"), "remi", "absolute", data="test pieces")
    new = write_model(Path("new"), "groove", "absolute")
    said = []
    for asked in ([known, new], [known], [known, new]):
        evaluate("report", *asked)
        said.append(capsys.readouterr().out.strip())
    assert said == ["report/index.html", "report-2/index.html", "report/index.html"]
    assert {row["model"] for row in read_csv(Path("report/extrapolation.csv"))} == {"known"}


def test_a_report_of_one_more_model_costs_only_what_is_new(
    place: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    asked = ("--data", place / "groove", "--pieces", 1, "--whole", 0, "--limit", 1)
    evaluate("report", place / "trio", *asked, "--prompts", tmp_path / "none", code=2)
    assert "there is no folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # nothing is measured before it is said
    evaluate("report", place / "trio", *asked, "--prompts", place / "midi")
    write_model(tmp_path / "new", "groove", "absolute")
    measured, written = [], []
    monkeypatch.setattr(
        "evaluation.study.experiments._done",
        lambda part, do=experiments._done: (
            measured.extend(job.places["model"] for job in part) or do(part)
        ),
    )
    monkeypatch.setattr(
        "evaluation.continuation.experiment._continued",
        lambda model, *a, do=experiment._continued, **k: (
            written.append(model.name) or do(model, *a, **k)
        ),
    )
    evaluate("report", place / "trio", tmp_path / "new", *asked, "--prompts", place / "midi")
    assert "report-2/index.html" in capsys.readouterr().out
    assert {*measured} == {str(tmp_path / "new")}
    assert written == ["new"]


def test_what_counts_musical_time_is_drawn_over_bars(tmp_path: Path, capsys):
    position = {"name": "rope", "time": "music"}
    model = write_model(tmp_path / "bars", "groove", position)
    evaluate("positions", model, "--tokens", 2, "-o", tmp_path / "out")
    (found,) = json.loads((tmp_path / "out" / "positions.json").read_text())["models"]
    assert found["encoding"] == "rope in musical time"
    assert found["templates"]["bar"] == 6  # the toy's
    assert (tmp_path / "out" / "templates-bars.png").stat().st_size > 1000


class Page(HTMLParser):
    """Notes what a page consists of, and that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids += [known["id"] or ""] if "id" in known else []
        self.links += [known[key] or "" for key in ("href", "src", "xlink:href") if key in known]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_needs_nothing_beside_itself_and_goes_on(place: Path, tmp_path: Path, capsys):
    report = tmp_path / "report"
    models = [place / name for name in ("ape", "sine", "trio")]
    asked = ("-o", report, "--data", place / "remi", place / "groove", "--pieces", 2)
    evaluate("report", *models[2:], *asked)
    first = {path.name: path.stat().st_mtime_ns for path in (report / ".results").iterdir()}
    evaluate("report", *models, *asked, "--prompts", place / "midi", "--limit", 2)
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == str(report / "index.html")
    assert "left out of continuation, which is in groove, for speaking remi: ape, sine" in err
    kept = {path.name: path.stat().st_mtime_ns for path in (report / ".results").iterdir()}
    assert first.items() < kept.items()  # what was measured is not measured again

    text = (report / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert {link for link in page.links if link.startswith("#")} <= {
        f"#{name}" for name in page.ids
    }
    assert not re.search(r"<script|@import|url\((?!#)", text)
    for model in json.loads((report / "results.json").read_text())["models"]:
        assert model["sha256"][:12] in text
    tables = {path.stem for path in report.glob("*.csv")}
    assert {
        "models",
        "extrapolation",
        "realisations",
        "ablation",
        "positions",
        "continuation_similarity",
    } <= tables
    taken = read_csv(report / "ablation.csv")
    # No part of absolute positions can be taken away.
    assert {row["model"] for row in taken} == {"sine", "trio"}
    for row in taken:
        assert float(row["within_low"]) <= float(row["within"]) <= float(row["within_high"])
    assert "What the models rely on" in text
    assert {row["model"] for row in read_csv(report / "realisations.csv")} == {"sine", "trio"}


def test_a_report_has_what_whole_pieces_show(tmp_path: Path):
    sets, models = [], []
    for name in ("remi-2", "groove-2"):
        sets.append(prepared_set(tmp_path / "data" / name, name, train=2))
        models.append(write_model(tmp_path / name, name, "absolute"))
    report = tmp_path / "report"
    evaluate("report", *models, "--data", *sets, "--pieces", 1, "--whole", 1, "-o", report)
    text = (report / "index.html").read_text(encoding="utf-8")
    assert "Gaps filled in: remi-2" in text
    assert "Parts written to others: groove-2" in text
    assert "Form of continuations" not in text  # the toy's pieces have six bars at most
    found = json.loads((report / "results.json").read_text())["whole_pieces"]
    assert [one["kind"] for one in found] == ["infilling", "accompaniment"]
    for one in found:
        assert one["command"] in html.unescape(text)
        assert {row["written"]["n"] for model in one["models"] for row in model["table"]} <= {0, 1}
    rows = read_csv(report / "whole_pieces.csv")
    assert {row["side"] for row in rows if row["kind"] == "accompaniment"} >= {"written", "next"}


def test_a_report_keeps_to_the_split_that_is_asked_for(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = prepared_set(tmp_path / "set", "remi-2", train=2, held_out=1)
    model = write_model(tmp_path / "model", "remi-2", "sine_spe")
    options = ("--data", data, "--split", "train", "--pieces", 1, "--whole", 1, "-o", "report")
    evaluate("report", model, *options)
    found = json.loads(Path("report/results.json").read_text())
    (whole,), (losses,), (ablated,) = (
        found[name] for name in ("whole_pieces", "extrapolation", "ablation")
    )
    assert (whole["kind"], whole["split"]) == ("infilling", "train")
    assert {losses["data"]["split"], ablated["data"]["split"]} == {"train"}
    for one in (whole, losses, ablated):
        assert "--split train" in one["command"]
    text = Path("report/index.html").read_text(encoding="utf-8")
    assert "of the train split" in text
    assert "held-out" not in text


@pytest.mark.parametrize(("option", "value"), [("--limit", 0), ("--whole", -1)])
def test_a_report_of_less_than_nothing_is_refused(option: str, value: int, place: Path, capsys):
    evaluate("report", place / "trio", option, value, code=2)
    assert f"{option} {'is ' if option == '--limit' else ''}{value}" in capsys.readouterr().err


def test_a_report_without_data_says_what_it_lacks(place: Path, tmp_path: Path):
    evaluate("report", place / "trio", "-o", tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "this takes a prepared data set" in text
    assert "this takes a folder of MIDI files" in text


def test_a_report_shows_finished_benchmarks_beside_the_papers(place: Path, tmp_path: Path, capsys):
    source, found = tmp_path / "expressions", tmp_path / "listops"
    source.mkdir()
    for split in ("train", "test"):
        lines = ["Source\tTarget", *("( ( [MAX 3 ) 9 ) ]\t9",) * 8]
        (source / f"basic_{split}.tsv").write_text("\n".join(lines) + "\n")
    words = ["benchmark", "listops", str(source), "--short", "--seeds", "2", "--steps", "1"]
    assert main([*words, "--encodings", "none", "absolute", "-o", str(found)]) == 0
    evaluate("report", place / "trio", "--benchmarks", found, "-o", tmp_path / "report")
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert Page(text).open == []
    section = text.partition("Not music: listops</h2>")[2]
    assert "Liutkus et al.<br>2021:" in section
    assert "37.25" in section
    assert "Each of 2 seeds: 1 step of 8 examples" in section
    rows = read_csv(tmp_path / "report" / "benchmarks.csv")
    assert {(row["encoding"], row["measure"], row["n"]) for row in rows} >= {
        ("none", "accuracy", "2"),
        ("absolute", "accuracy", "2"),
    }
    capsys.readouterr()
    evaluate("report", place / "trio", "--benchmarks", source, "-o", tmp_path / "other", code=2)
    assert "holds no benchmark.json" in capsys.readouterr().err


def test_models_of_one_name_are_told_apart(tmp_path: Path):
    for run in ("a", "b"):
        write_model(tmp_path / run / "model", "remi", "none")
    names = [str(tmp_path / run / "model") for run in ("a", "b")]
    assert [playable.name for playable in models_of(names)] == names
    write_model(tmp_path / "c" / "model", "remi", "none")
    (tmp_path / "c" / "model").rename(tmp_path / "c" / "other")
    labels = [s.name for s in models_of([names[0], str(tmp_path / "c" / "other"), names[0]])]
    assert labels == ["model", "other"]


def test_parts_are_taken_away_from_models_of_the_data(place: Path, tmp_path: Path, capsys):
    models = [place / name for name in ("ape", "sine", "trio")]
    options = ("--data", place / "remi", "--pieces", "3", "--length", "40", "-o", tmp_path / "out")
    evaluate("ablation", *models, *options, "--json")
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert "for speaking groove: trio" in err
    assert [(row["model"], row["part"]) for row in rows] == [
        ("sine", part)
        for part in ("gates open", "positions all one", "frequencies shuffled", "noise redrawn")
    ]
    for row in rows:
        low, high = row["interval"]["within"]
        assert low <= row["within"] <= high
        assert row["pieces"]["within"] == 3
    written = read_csv(tmp_path / "out" / "ablation.csv")
    assert float(written[0]["within"]) == rows[0]["within"]
    assert {"within_low", "past_high", "past_n"} <= written[0].keys()
    evaluate("ablation", place / "sine", *options[:-2])
    assert capsys.readouterr().out.splitlines()[2].startswith("sine")


def test_a_model_without_parts_and_other_data_are_refused(place: Path, tmp_path: Path, capsys):
    evaluate("ablation", place / "ape", "--data", place / "remi", "-o", tmp_path / "out", code=2)
    assert "no model has a part to take away" in capsys.readouterr().err
    evaluate("ablation", place / "sine", "--data", place / "groove", code=2)
    assert "which none of the models speaks" in capsys.readouterr().err
    assert not (tmp_path / "out" / "ablation.json").exists()
