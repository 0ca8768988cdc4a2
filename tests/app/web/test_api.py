"""Programs reach the page's actions by name, and nobody reaches what is not theirs."""

import re
import time
from pathlib import Path
from typing import Any

import music21
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from app.cli import main
from app.web.offered_models import EXAMPLES
from tests.app.web.browser import MODEL
from tests.tokenization.notation.scores import bars, compressed, note, rest, score
from tokenization.ensemble.tokens import PART_NAMES
from tokenization.midi.reading import read_midi

FILES = Path(__file__).parents[3] / "app" / "examples"
TRIO, SONG = FILES / "trio-jazz.mid", FILES / "piano-c-major.mid"


@pytest.fixture
def client(address: str, tmp_path: Path):
    found = Client(address, verbose=False, download_files=str(tmp_path))
    yield found
    found.close()


def test_files_are_described_heard_and_compared(client: Client, tmp_path: Path):
    listed = client.predict(api_name="/models")
    assert listed[0] == {"name": MODEL, "language": "ensemble"}
    said = client.predict(handle_file(str(TRIO)), MODEL, api_name="/read")
    assert (said["bars"], said["tracks"]) == (16, ["Bass", "Drums", "Other"])
    assert said["notes"] == len(read_midi(TRIO).notes)
    lied, tune = tmp_path / "lied.mxl", tmp_path / "tune.abc"
    lied.write_bytes(compressed(score(bars(*(note("C", 4, 8) for _ in range(3))))))
    said = client.predict(handle_file(str(lied)), api_name="/read")
    assert (said["title"], said["bars"], said["notes"]) == ("lied", 3, 3)
    tune.write_text("X:1\nL:1/4\nM:4/4\nK:G\nGABc|d4|\n")
    sound = Path(client.predict(handle_file(str(tune)), api_name="/sound")).read_bytes()
    assert sound[:4] == b"RIFF"
    assert len(sound) > 1 << 18
    rows = client.predict(handle_file(str(SONG)), handle_file(str(SONG)), api_name="/similarity")
    assert {row["metric"] for row in rows} == {"onset–duration", "time–pitch"}
    assert all(quarter > 0.3 for row in rows for quarter in row["quarters"])
    parsed = music21.converter.parse(client.predict(handle_file(str(SONG)), api_name="/score"))
    begun = [
        one
        for one in parsed.flatten().notes
        if not isinstance(one, music21.harmony.Harmony)
        and (one.tie is None or one.tie.type == "start")
    ]
    assert sum(len(one.pitches) for one in begun) == len(read_midi(SONG).notes)


def test_works_are_done_by_models_that_can(client: Client):
    trio, song = handle_file(str(TRIO)), handle_file(str(SONG))
    asked: dict[str, Any] = {"prompt_bars": 2, "bars": 1, "variations": 2, "seed": 3}
    paths, facts = client.predict(trio, **asked, api_name="/continue")
    assert [Path(path).name for path in paths] == ["trio-jazz.cont_0.mid", "trio-jazz.cont_1.mid"]
    for path, fact in zip(paths, facts, strict=True):
        assert len(read_midi(path).notes) > fact["notes"] > 0
        assert (fact["seed"], fact["prompt_bars"]) == (3, [1, 2])
        assert all(len(row["quarters"]) == 4 for row in fact["similarity"])
    _, (fact,) = client.predict(trio, "groove", first=3, last=4, api_name="/infill")
    assert (fact["model"], fact["written_bars"]) == (MODEL, [3, 4])
    _, (fact,) = client.predict(trio, parts="bass", api_name="/accompany")
    assert fact["state"] == "done"
    _, (fact,) = client.predict(song, "pop-piano", 2, bars=1, chords="F", api_name="/continue")
    assert fact["chords"]
    with pytest.raises(AppError, match="no part can be written"):
        client.predict(song, "pop-piano", "drums", api_name="/accompany")
    _, (fact,) = client.predict(trio, "groove", 2, bars=1, chords="C", api_name="/continue")
    assert (fact["model"], fact["chords"]) == (MODEL, [["C_M"]])


def test_a_wrong_request_gets_a_sentence(client: Client, tmp_path: Path):
    bad = tmp_path / "bad.mid"
    bad.write_bytes(b"PK\x03\x04 not music")
    with pytest.raises(AppError, match=r"“bad\.mid” is a zip archive"):
        client.predict(handle_file(str(bad)), api_name="/read")
    with pytest.raises(AppError, match="1000 is greater than maximum value 128"):
        client.predict(handle_file(str(TRIO)), bars=1000, api_name="/continue")
    with pytest.raises(AppError, match="There is no file"):
        client.predict(None, api_name="/read")


CHORD = "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>"
LEAD = score(bars(CHORD + rest(8)))  # without a melody
MANY = (*PART_NAMES[:6], *PART_NAMES[12:20])


@pytest.mark.parametrize(
    ("words", "says", "endpoint", "asked", "answers"),
    [
        (["continue", TRIO, "--tracks", "violin"], "there is no track 'violin'; the score has",
         None, {}, ""),
        (["accompany", TRIO, "--write", "theremin"], "there is no instrument 'theremin'",
         "/accompany", {"file": TRIO, "parts": "theremin"}, "There is no instrument 'theremin'"),
        (["rewrite", TRIO, "--range", "3-4", "--plan", "plan.json"], "has 3 numbers for 2 bars",
         "/infill", {"file": TRIO, "first": 90, "last": 91}, "Bars 90 to 91 were asked for, of 16"),
        (["accompany", TRIO, "--write", *MANY], "the piece would have 17 parts; 16 can be written",
         "/accompany", {"file": TRIO, "parts": " ".join(MANY)}, "The piece would have 17 parts; 16"),
        (["generate", "--form", "B A"], "the form 'B A' names B before A",
         "/begin", {"form": "B A"}, "The form 'B A' names B before A"),
        (["continue", "lead.musicxml"], "lead.musicxml holds chords but no notes: add a melody",
         "/continue", {"file": "lead.musicxml"}, "“lead.musicxml” holds chords but no notes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_and_nothing_is_written(
    words, says, endpoint, asked, answers, client: Client, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("lead.musicxml").write_bytes(LEAD)
    Path("plan.json").write_text('{"density": [3, 3, 3]}')
    before = {*tmp_path.iterdir()}
    command, *more = map(str, words)
    assert main([command, *more, "--model", MODEL, "-o", "out"]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("musicgen: ")
    assert says in last
    if endpoint:
        if "file" in asked:
            asked = {**asked, "file": handle_file(str(asked["file"]))}
        with pytest.raises(AppError, match=re.escape(answers)):
            client.predict(model=MODEL, **asked, api_name=endpoint)
    assert {*tmp_path.iterdir()} == before


def test_a_piece_begins_as_it_is_asked_to(client: Client):
    asked = {"key": "G minor", "tempo": 72, "metre": "3/4", "parts": "flute, steel guitar"}
    [path], [fact] = client.predict("ensemble", **asked, bars=1, api_name="/begin")
    assert fact["idea"] == {**asked, "parts": ["flute", "steel guitar"]}
    assert [track.name for track in read_midi(path).tracks] == ["Flute", "Steel guitar"]
    with pytest.raises(AppError, match="There is no style 'jazz'"):
        client.predict("ensemble", style="jazz", api_name="/begin")


@pytest.mark.long  # it is found out with the next heartbeat of gradio's
def test_who_leaves_takes_their_files_along(address: str, files: Path, tmp_path: Path):
    (server,) = files.glob("musicgen-*")
    client = Client(address, verbose=False, download_files=str(tmp_path))
    before = {*server.iterdir()}
    client.predict(None, bars=1, api_name="/continue")  # from nothing
    (own,) = {one for one in {*server.iterdir()} - before if one.name not in ("gradio", "answers")}
    assert list(own.rglob("*.mid"))
    client.close()
    late = time.monotonic() + 60
    while own.exists() and time.monotonic() < late:
        time.sleep(0.1)
    assert not own.exists()


def test_every_example_is_bundled_with_its_licence():
    readme = (FILES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.mid`" in readme for name in EXAMPLES)
    assert {path.stem for path in FILES.glob("*.mid")} == set(EXAMPLES)
