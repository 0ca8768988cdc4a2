"""The endpoints for programs."""

from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from app.web.offered_models import EXAMPLES
from tests.app.web.browser import MODEL
from tests.tokenization.notation.scores import bars, compressed, note, score
from tokenization.formats import read_file
from tokenization.midi.reading import read_midi

FILES = Path(__file__).parents[3] / "app" / "examples"
TRIO, SONG = FILES / "trio-jazz.mid", FILES / "piano-c-major.mid"


@pytest.fixture
def client(address: str, tmp_path: Path):
    found = Client(address, verbose=False, download_files=str(tmp_path))
    yield found
    found.close()


def test_files_are_read_rendered_converted_and_compared(client: Client, tmp_path: Path):
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
    written = read_file(Path(client.predict(handle_file(str(SONG)), api_name="/score")))
    played = read_midi(SONG)
    # Two notes of one pitch that a player reads at one place become one.
    beats = (played.notes.onset_ticks / played.ticks_per_beat).round()
    fewest = len({*zip(beats.tolist(), played.notes.pitch.tolist(), strict=True)})
    assert fewest <= len(written.notes) <= len(played.notes)
    assert {*written.notes.pitch.tolist()} == {*played.notes.pitch.tolist()}


def test_music_is_written(client: Client):
    trio = handle_file(str(TRIO))
    asked: dict[str, Any] = {"prompt_bars": 2, "bars": 1, "variations": 2, "seed": 3}
    paths, facts = client.predict(trio, **asked, api_name="/continue")
    assert [Path(path).name for path in paths] == [
        "trio-jazz.prompt_cont_0.mid",
        "trio-jazz.prompt_cont_1.mid",
    ]
    for path, fact in zip(paths, facts, strict=True):
        assert len(read_midi(path).notes) > fact["notes"] > 0
        assert (fact["seed"], fact["prompt_bars"]) == (3, [1, 2])
        assert all(len(row["quarters"]) == 4 for row in fact["similarity"])
    _, (fact,) = client.predict(trio, first=3, last=4, draw=2, api_name="/infill")
    assert (fact["model"], fact["written_bars"]) == (MODEL, [3, 4])
    with pytest.raises(AppError, match="draw: must be a whole number from 1 to 8"):
        client.predict(trio, draw=9, api_name="/accompany")
    _, (fact,) = client.predict(trio, parts="bass", api_name="/accompany")
    assert fact["state"] == "done"
    asked = {"first": 3, "last": 3, "parts": "bass, +banjo"}
    _, (fact,) = client.predict(trio, **asked, api_name="/infill")
    assert fact["written_parts"] == ["bass", "+banjo"]
    with pytest.raises(AppError, match="no track or instrument 'kazoo'"):
        client.predict(trio, parts="kazoo", api_name="/accompany")
    with pytest.raises(AppError, match="There is no style 'jazz'"):
        client.predict("ensemble", style="jazz", api_name="/begin")
    _, (fact,) = client.predict(trio, MODEL, 2, bars=1, chords="C", api_name="/continue")
    assert (fact["model"], fact["chords"]) == (MODEL, [["C"]])


def test_every_example_is_bundled_with_its_licence():
    readme = (FILES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.mid`" in readme for name in EXAMPLES)
    assert {path.stem for path in FILES.glob("*.mid")} == set(EXAMPLES)
