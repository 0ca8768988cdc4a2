"""`musicgen evaluate extrapolation`, `positions`, `ablation` and `report` with toy models of two languages."""

import html
import json
import re
from pathlib import Path

import pytest

from evaluation.study.ablation import REALISATIONS
from tests.app.commands.evaluate.test_pieces import GROOVE, PIANO, REMI
from tests.evaluation.toys import write_model
from tests.training.makers import prepared_set

QUICK = ("--device", "cpu", "--workers", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three data sets and models: ape, sine (remi) and trio (groove)."""
    folder = tmp_path_factory.mktemp("study")
    prepared_set(folder / "remi", "remi", held_out=3)
    prepared_set(folder / "groove", "groove", held_out=2)
    prepared_set(folder / "band", "ensemble", train=2)
    write_model(folder / "ape", "remi", "absolute")
    write_model(folder / "sine", "remi", "sine_spe")
    write_model(folder / "trio", "groove", "sine_spe")
    return folder


@pytest.fixture
def evaluate(command):
    return lambda *words: command("evaluate", *words, *QUICK)


def test_losses_of_the_models_of_the_datas_language(place: Path, tmp_path: Path, evaluate):
    models = [place / name for name in ("ape", "sine", "trio")]
    options = ("--data", place / "remi", "--pieces", 3, "-o", tmp_path / "out")
    out, err = evaluate("extrapolation", *models, *options, "--json")
    result = json.loads(out)
    assert f"left out of {place / 'remi'}, which uses the language remi: trio (groove)" in err
    assert [model["model"] for model in result["models"]] == ["ape", "sine"]
    assert result["length"] == 64
    for model in result["models"]:
        assert len(model["sha256"]) == 64
        assert model["parts"]["trained"]["stop"] == 16
        assert model["parts"]["trained"]["pieces"] == 3
        assert model["drift"]["far"]["pieces"] == 3
    assert json.loads((tmp_path / "out" / "extrapolation.json").read_text()) == result
    assert (tmp_path / "out" / "extrapolation.png").stat().st_size > 100


def test_positions_are_probed_and_drawn(place: Path, tmp_path: Path, evaluate):
    bars = write_model(tmp_path / "bars", "groove", {"name": "rope", "time": "music"})
    models = (place / "ape", place / "sine", bars)
    out, _ = evaluate("positions", *models, "--tokens", 5, "-o", tmp_path / "out")
    assert out.startswith("T: translation invariance, M: monotonicity")
    heads = [line.split()[1:] for line in out.splitlines() if line.startswith("model")]
    assert heads == [["ape", "sine"], ["bars"]]  # in two blocks
    found = json.loads((tmp_path / "out" / "positions.json").read_text())["models"]
    assert [len(model["probes"]["table"]) for model in found] == [18, 18, 18]
    assert found[2]["encoding"] == "rope in musical time"
    assert found[2]["templates"]["bar"] == 6  # the toy's
    drawn = {path.stem for path in (tmp_path / "out").glob("*.png") if path.stat().st_size > 1000}
    maps = {f"attention-{model}" for model in ("1-ape", "2-sine", "3-bars")}
    assert drawn == {"probes", "templates-2-sine", "templates-3-bars"} | maps


def test_parts_are_removed_from_models_of_the_datas_language(place: Path, tmp_path: Path, evaluate):
    models = [place / name for name in ("ape", "sine", "trio")]
    options = ("--data", place / "remi", "--pieces", 3, "--length", 40)
    out, err = evaluate("ablation", *models, *options, "--json", "-o", tmp_path / "out")
    rows = json.loads(out)
    assert ": trio (groove)" in err
    parts = ["gates open", "positions all one", "frequencies shuffled", "noise redrawn"]
    parts += REALISATIONS
    assert [(row["model"], row["part"]) for row in rows] == [("sine", part) for part in parts]
    for row in rows:
        within = row["within"]
        assert within["low"] <= within["mean"] <= within["high"]
        assert within["n"] == 3
    assert json.loads((tmp_path / "out" / "ablation.json").read_text())["models"] == rows
    assert evaluate("ablation", place / "sine", *options).out.splitlines()[2].startswith("sine")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("extrapolation trio --data remi", "name a model that uses remi"),
        ("extrapolation ape --data remi --seed -1", "--seed: '-1' is not a whole number"),
        ("ablation ape --data remi -o out", "no model has a part to remove"),
        (f"form {PIANO} --data band --bars 500", "has no piece of 508 bars in its validation"),
        (f"form {PIANO} --data band --bars 1 --skip 2", "validation split after the first 2;"),
        (f"form {PIANO} --data band --split test", "band has no piece in its test split; try"),
        (f"realism {PIANO} --data band", "band has no piece in its test split; try another"),
        (f"extrapolation {PIANO} --data band --split test", "has no piece in its test split; try"),
        (f"form {PIANO} --data band --skip -1", "--skip is -1; it must be 0 or more"),
        (f"form {PIANO} --data band --recall 2", "recall is 2"),
        (f"infilling {REMI} --data remi", "infilling needs music in the language ensemble; remi"),
        (f"tracks {GROOVE} --data groove", "needs music in the language ensemble; groove is in"),
        (f"infilling {PIANO} --data band --gap 17", "--gap is 17; at most 16 bars can be filled"),
        (f"accompaniment {GROOVE} --data groove", "name a model that uses ensemble"),
        ("accompaniment --data groove", "name at least one model, such as ensemble"),
        (f"accompaniment {PIANO} --data groove --bars 0", "--bars is 0; it must be 1 or more"),
        (
            f"realism {REMI} --data remi --split validation --prompt-bars 1 --bars 3",
            "is 3; it must be 8 or more, the length of a window",
        ),
        (
            f"originality {REMI} --data remi --split validation --prompt-bars 1 --bars 1",
            "--bars is 1; it must be 2 or more",
        ),
        ("report trio --whole -1", "--whole is -1; it must be 0 or more"),
        ("report trio --listen -1", "--listen is -1; it must be 0 or more"),
        ("report trio --data remi", "remi is in remi, which no model uses"),
    ],
)
def test_an_impossible_measurement_is_refused(place, words, says, monkeypatch, refused):
    monkeypatch.chdir(place)
    before = [*place.iterdir()]
    assert says in refused("evaluate", *words.split(), *QUICK)
    assert [path for path in place.iterdir() if path not in before] in ([], [place / "out"])
    assert not (place / "out" / "ablation.json").exists()


def page(report: Path) -> str:
    """Return the text of a report, which must not need other files than its own."""
    text = (report / "index.html").read_text(encoding="utf-8")
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    links = re.findall(r'\s(?:href|src|xlink:href)="([^"]*)"', text)
    own = {f"#{name}" for name in ids}
    own |= {path.relative_to(report).as_posix() for path in report.glob("sounds/*")}
    assert {link for link in links if not link.startswith("data:image/png;base64,")} <= own
    assert not re.search(r"<script|@import|url\((?!#)", text)
    return text


def test_a_report_of_a_split_has_evaluations_on_whole_pieces(shared_set, tmp_path, evaluate):
    languages, report = ("ensemble", "groove"), tmp_path / "report"
    sets = [shared_set(name, train=2, bars=8) for name in languages]
    models = [write_model(tmp_path / name, name, "sine_spe") for name in languages]
    options = ("--split", "train", "--pieces", 1, "--whole", 1, "--listen", 1, "-o", report)
    evaluate("report", *models, "--data", *sets, *options)
    text = page(report)
    for part in ("of the train split", "Accompaniment: ensemble", "Ablation: groove"):
        assert part in text
    assert "held-out" not in text
    found = json.loads((report / "results.json").read_text())
    kinds = [one["kind"] for one in found["experiments"]]
    losses = ["extrapolation", "ablation"]
    whole = ["continuation", "infilling", "accompaniment", "takes"]
    assert kinds == [*losses, *whole, *losses, "continuation", "takes", "positions"]
    takes = [
        take
        for one in found["experiments"]
        for take in one["models"][0].get("rows", ())
        if one["kind"] == "takes"
    ]
    assert {take["ability"] for take in takes} > {"continued", "ended", "filled in"}
    for take in takes:
        assert {*take["new"]} == {True, False}
        assert all((report / f"{take['file']}.{kind}").stat().st_size for kind in ("mid", "wav"))
    for one in found["experiments"][:-1]:
        assert one["split"] == "train"
        assert "--split train" in one["command"]
        assert one["command"] in html.unescape(text)
