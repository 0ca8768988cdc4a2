"""Names of models, files and tracks cannot act as paths or as terminal commands."""

import json
import shutil
from pathlib import Path

import pytest

from app.cli import main
from app.commands.making_music import file_stem
from app.output import visible
from app.web.offered_models import OfferedModels
from tests.training.makers import on_disk
from tokenization.formats import write_score
from tokenization.midi.reading import read_midi
from tokenization.score import Score

SEED_FILE = Path(__file__).parent.parent / "seeds" / "pop909_001.mid"
CLEAR = "\x1b[2J\x9b2J\nmusicgen: all is well\r\u202e"
CLEAR_FILE = on_disk(CLEAR)


def call(model: Path, name: str) -> None:
    """Set the name in a model's card, and for its data a name that clears the terminal."""
    content = json.loads((model / "config.json").read_text())
    content["card"].update(name=name, training={"data": CLEAR})
    (model / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["../../escaped", "/{}/escaped", "..\\up", "..", "", "é" * 300])
def test_a_models_name_leads_to_no_other_folder(name: str, model: Path, command, tmp_path: Path):
    home = tmp_path / "a" / "b"
    call(model, name.format(tmp_path))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    command("generate", "--model", model, "--tokens", 40, "-o", home)
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert len(new) == 2
    assert {path.parent for path in new} == {home}
    assert not [path.name for path in new if path.name.startswith(".")]  # hidden files


def test_no_name_controls_the_terminal(model: Path, tmp_path: Path, capsys, monkeypatch):
    call(model, CLEAR)
    monkeypatch.chdir(tmp_path)
    model, midi = model.rename(tmp_path / f"m{CLEAR[:4]}"), tmp_path / f"a{CLEAR_FILE}.mid"
    score = read_midi(SEED_FILE)
    tracks = tuple(type(track)(**{**vars(track), "name": CLEAR}) for track in score.tracks)
    write_score(midi, Score(**{**vars(score), "tracks": tracks}))
    for words in (
        ["generate", "--tokens", "40", "--model", model],
        ["generate", "--tokens", "40", "--json", "--model", model],
        ["models", model],
        ["models", "--json", model],
        ["tokenize", midi, "--tracks", "nobody"],
        ["tokenize", midi, "--json"],
        ["continue", midi, "--model", model, "--prompt-bars", "999"],
        ["continue", midi, "--model", model, "--prompt-bars", "1", "--tokens", "30"],
        ["continue", f"{midi}/{CLEAR_FILE}"],
        ["evaluate", "style", midi, midi],
        ["evaluate", "positions", model, "--tokens", "8"],
        ["app", "--model", CLEAR_FILE],
    ):
        before = set(tmp_path.iterdir())
        main([str(word) for word in words])
        said = capsys.readouterr()
        assert said.out + said.err
        assert not {*"\x1b\x9b\r\u202e"} & {*said.out, *said.err}, words
        assert "\nmusicgen: all is well" not in said.out + said.err
        for path in set(tmp_path.iterdir()) - before:
            assert not {*"\x1b\x9b\n"} & {*path.name}


def test_a_model_that_is_deleted_while_it_is_offered_is_reported(model: Path):
    offered = OfferedModels(str(model))
    shutil.rmtree(model)
    with pytest.raises(ValueError, match="this model no longer exists"):
        offered.find("")


def test_control_characters_are_escaped():
    found = visible("a\tb\n\x1b[2J\x9b\r\u202e\udcff é…")
    assert found == "a\\u0009b\\u000a\\u001b[2J\\u009b\\u000d\\u202e\\udcff é…"
    assert visible("a\tb\nc\x1b", lines=True) == "a\tb\nc\\u001b"
    assert json.loads(visible(json.dumps("\x7f\u2028", ensure_ascii=False))) == "\x7f\u2028"


def test_a_name_that_the_file_system_cannot_encode_is_replaced(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    assert [file_stem(name) for name in ("Ωδή/2", "a\udcff")] == ["____2", "a\udcff"]
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "utf-8")
    assert file_stem("Ωδή/2 \udcff") == "Ωδή_2 \udcff"
