"""`musicgen evaluate style` and `listening` on files."""

import json
from pathlib import Path

import pytest

from app.commands.evaluate.listening import FORMAT
from evaluation.metrics.style import cosine, onset_duration, time_pitch
from tests.evaluation.scores import DRUMS, OTHER, random_trio, trio
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with two bands, drums, an invalid file, and a folder."""
    monkeypatch.chdir(tmp_path)
    write_score(tmp_path / "band.mid", random_trio(0, 120, beats=32))
    write_score(tmp_path / "other.mid", random_trio(1, 90, beats=24))
    write_score(tmp_path / "drums.mid", trio([(at, 1, 36, DRUMS) for at in range(0, 96, 12)]))
    (tmp_path / "midi").mkdir()
    (tmp_path / "rubbish.mid").write_bytes(b"no music")
    return tmp_path


@pytest.fixture
def style(folder: Path, command):
    return lambda *files, **how: command("evaluate", "style", "band.mid", *files, **how)


def test_json_has_the_whole_and_the_quarters(folder: Path, style):
    rows = json.loads(style("other.mid", "band.mid", "other.mid", "--json").out)
    assert [row["output"] for row in rows] == 15 * ["other.mid"] + 15 * ["band.mid"]
    wholes = {(r["output"], r["metric"]): r["similarity"] for r in rows if r["quarter"] is None}
    assert wholes["band.mid", "time_pitch"] == pytest.approx(1)
    band, other = (read_midi(folder / name) for name in ("band.mid", "other.mid"))
    for metric in (onset_duration, time_pitch):
        histograms = [metric(score.pitched, score.ticks_per_beat) for score in (band, other)]
        assert wholes["other.mid", metric.__name__] == pytest.approx(cosine(*histograms))


def test_drums_are_compared_by_onset_and_drum(style):
    rows = json.loads(style("drums.mid", "--json").out)
    known = {row["metric"] for row in rows if row["similarity"] is not None}
    assert known == {"onset_drum"}
    assert "–" in style("drums.mid").out


def test_folders_of_prompts_and_continuations_are_compared(folder: Path, command):
    """A continuation that repeats its prompt is similar to it, and results agree with those of single files."""
    bar = [(at, 6, 60 + at % 7, OTHER) for at in range(0, 48, 12)]
    more = [(at + 48, 3 + at % 5, pitch + at % 5, OTHER) for at, _, pitch, _ in bar]
    again = [(at + 48, length, pitch, part) for at, length, pitch, part in bar]
    for name, rest in {"same": again, "other": more}.items():
        (folder / name).mkdir()
        write_score(folder / name / "pop1.rock.prompt.mid", trio(bar))
        write_score(folder / name / "pop1.rock.prompt_cont_0.mid", trio(bar + rest))
    (folder / "same/pop1.rock.prompt_cont_0.mid").rename(
        folder / "same/pop1.rock.prompt.prompt_cont_0.mid"
    )
    found = json.loads(command("evaluate", "style", "same", "other", "--json").out)
    assert found["counts"] == {name: {"file": 1, "style": 1} for name in ("same", "other")}
    whole = {
        (row["output"], row["metric"]): row["mean"]
        for row in found["similarity"]
        if row["quarter"] is None
    }
    write_score(folder / "rest.mid", trio([(at - 48, *note) for at, *note in more]))
    alone = command("evaluate", "style", "same/pop1.rock.prompt.mid", "rest.mid", "--json").out
    for row in json.loads(alone):
        if row["quarter"] is None and row["metric"] != "onset_drum":
            assert whole["other", row["metric"]] == pytest.approx(row["similarity"])
            assert whole["other", row["metric"]] < whole["same", row["metric"]] == pytest.approx(1)
    out, _ = command("evaluate", "style", "same", "other")
    assert out.startswith("same: 1 continuation, 1 style\n")
    assert max(map(len, out.splitlines())) <= 80
    (folder / "other/pop1.rock.prompt.mid").unlink()
    for words, reason in (
        (("same", "other"), "other has pop1.rock.prompt_cont_0.mid, but not pop1.rock.prompt.mid"),
        (("midi",), "midi has no continuations"),
        (("same", "band.mid"), "band.mid is not a folder, but same is"),
        (("band.mid",), "name files to compare with band.mid"),
        (("band.mid", "rubbish.mid"), "musicgen: rubbish.mid is not a MIDI file"),
        (("band.mid", "none.mid"), "musicgen: there is no file none.mid"),
    ):
        assert reason in command("evaluate", "style", *words, code=2).err


# `musicgen evaluate listening` on files as the page writes them.


def choice(number: int, a: str, b: str, chosen: str) -> dict:
    return {"id": f"{number}", "A": {"source": a}, "B": {"source": b}, "chosen": chosen}


def written(path: Path, *choices: object, **more: object) -> Path:
    path.write_text(json.dumps({"format": FORMAT, "choices": [*choices], **more}))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return two files that share a choice."""
    one = [choice(n, "ensemble", "real", "A") for n in range(4)]
    two = [choice(n, "real", "ensemble", "A") for n in range(4, 10)]
    others = [
        choice(10, "ensemble", "real", "none"),
        choice(11, "ensemble", "ensemble", "B"),
        choice(12, "zebra", "ensemble", "A"),
    ]
    anna = written(tmp_path / "anna.json", *one, two[0])
    return [anna, written(tmp_path / "ben.json", *two, *others)]


def test_choices_are_counted_by_pairs_of_sources_on_either_side(command, files: list[Path]):
    rows = json.loads(command("evaluate", "listening", *files, "--json").out)
    names = ("heard", "first", "second", "equal")
    assert {tuple(row["pair"]): [row[name] for name in names] for row in rows} == {
        ("ensemble", "ensemble"): [1, 0, 1, 0],
        ("ensemble", "real"): [11, 4, 6, 1],
        ("ensemble", "zebra"): [1, 0, 1, 0],
    }
    assert [row["share"]["n"] for row in rows if row["pair"] == ["ensemble", "real"]] == [10]


def test_the_table_fits_a_terminal(command, files: list[Path], tmp_path: Path):
    many = [choice(90 + n, "a-model-with-a-long-name", "b" * 99, "A") for n in range(3)]
    long = written(tmp_path / "long.json", *many)
    lines = command("evaluate", "listening", *files, long).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "ensemble / real 11 4 6 1 0.400 [0.168, 0.687]" in [" ".join(line.split()) for line in lines]  # fmt: skip


def test_a_file_without_choices_is_reported(refused, tmp_path: Path):
    other = tmp_path / "other.json"
    other.write_text('{"seed": 3}')
    assert "other.json has no choices of blind comparisons" in refused("evaluate", "listening", other)  # fmt: skip
    for odd in ({}, choice(1, "a", "b", "C"), {**choice(1, "a", "b", "A"), "A": "a"}, 7):
        assert "is damaged" in refused("evaluate", "listening", written(tmp_path / "odd.json", odd))
    none = written(tmp_path / "none.json")
    assert "these files have no choices yet" in refused("evaluate", "listening", none)
