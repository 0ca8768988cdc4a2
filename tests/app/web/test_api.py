"""Programs reach the page's actions by name, and nobody reaches what is not theirs."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import music21
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

import musicgen
from app.web.api import Api
from app.web.composing.streamed_takes import Region
from app.web.offered_models import EXAMPLES
from musicgen.continuation import Take
from tests.app.web.browser import serving
from tests.tokenization.notation.scores import bars, compressed, note, score
from tokenization.midi.reading import read_midi

FILES = Path(__file__).parents[3] / "app" / "examples"
TRIO, SONG = FILES / "trio-jazz.mid", FILES / "piano-c-major.mid"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Where the server keeps its files."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def address(files: Path):
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(files)
    try:
        with serving("--model", "untrained:tiny:groove") as found:
            yield found
    finally:
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
    assert list(files.iterdir()) == []  # the server took its files with it


@pytest.fixture
def client(address: str, tmp_path: Path):
    found = Client(address, verbose=False, download_files=str(tmp_path))
    yield found
    found.close()


def test_models_are_listed(client: Client):
    listed = client.predict(api_name="/models")
    assert listed[0] == {"name": "untrained:tiny:groove", "language": "groove"}


def test_a_file_is_described(client: Client):
    said = client.predict(handle_file(str(TRIO)), "untrained:tiny:groove", api_name="/read")
    assert said["bars"] == 16
    assert said["tracks"] == ["Bass", "Drums", "Other"]
    assert said["notes"] == len(read_midi(TRIO).notes)


def test_a_file_is_continued_by_name_and_with_defaults(client: Client):
    paths, facts = client.predict(
        file=handle_file(str(TRIO)),
        prompt_bars=2,
        bars=1,
        variations=2,
        seed=3,
        api_name="/continue",
    )
    assert [Path(path).name for path in paths] == ["trio-jazz.cont_0.mid", "trio-jazz.cont_1.mid"]
    for path, fact in zip(paths, facts, strict=True):
        assert len(read_midi(path).notes) > fact["notes"] > 0
        assert (fact["seed"], fact["prompt_bars"]) == (3, [1, 2])
        assert all(len(row["quarters"]) == 4 for row in fact["similarity"])
    assert json.dumps(facts)


def test_a_piece_is_begun_from_nothing(client: Client):
    paths, facts = client.predict(None, bars=1, api_name="/continue")
    assert len(paths) == 1
    assert facts[0]["prompt_bars"] is None
    assert facts[0]["state"] == "done"


def test_what_is_silent_has_no_file(tmp_path: Path):
    [take] = musicgen.load("untrained:tiny").continue_(bars=2, seed=3)
    silent = replace(take, score=take.score.replace(notes=take.score.notes[:0]))

    def written(*takes: Take) -> Any:
        streamed = SimpleNamespace(chosen=lambda: takes, region=Region(first=0, stop=2))
        api = SimpleNamespace(_folder=lambda request: tmp_path)
        return Api._files(
            cast("Any", api), cast("Any", streamed), "music", "done", 1.0, cast("Any", None)
        )

    paths, facts = written(silent, take)
    assert len(paths) == len(facts) == 1
    assert facts[0]["notes"] == len(take.continuation.notes) > 0
    with pytest.raises(ValueError, match="no note was written"):
        written(silent)


def test_a_file_is_played_and_compared(client: Client):
    sound = Path(client.predict(handle_file(str(SONG)), api_name="/sound")).read_bytes()
    assert sound[:4] == b"RIFF"
    assert len(sound) > 1 << 20
    rows = client.predict(handle_file(str(SONG)), handle_file(str(SONG)), api_name="/similarity")
    assert {row["metric"] for row in rows} == {"onset–duration", "time–pitch"}
    assert all(quarter > 0.3 for row in rows for quarter in row["quarters"])


def test_scores_are_read_and_heard_as_midi_files_are(client: Client, tmp_path: Path):
    song, tune = tmp_path / "lied.mxl", tmp_path / "tune.abc"
    song.write_bytes(compressed(score(bars(*(note("C", 4, 8) for _ in range(3))))))
    tune.write_text("X:1\nL:1/4\nM:4/4\nK:G\nGABc|d4|\n")
    said = client.predict(handle_file(str(song)), api_name="/read")
    assert (said["title"], said["bars"], said["notes"]) == ("lied", 3, 3)
    assert client.predict(handle_file(str(tune)), api_name="/read")["notes"] == 5
    sound = Path(client.predict(handle_file(str(tune)), api_name="/sound")).read_bytes()
    assert sound[:4] == b"RIFF"


def test_a_score_is_written_for_programs_that_print_it(client: Client):
    path = Path(client.predict(handle_file(str(SONG)), api_name="/score"))
    parsed = music21.converter.parse(str(path))
    heard = sum(len(note.pitches) for note in parsed.flatten().notes if not _is_held(note))
    assert heard == len(read_midi(SONG).notes)


def _is_held(note) -> bool:
    return note.tie is not None and note.tie.type != "start"


def test_what_a_model_cannot_is_done_by_the_related_one_that_can(client: Client):
    _, (facts,) = client.predict(
        handle_file(str(TRIO)), "groove", first=3, last=3, api_name="/infill"
    )
    assert (facts["model"], facts["written_bars"]) == ("groove-2", [3, 3])
    _, (facts,) = client.predict(
        handle_file(str(TRIO)), "groove", prompt_bars=2, bars=1, api_name="/continue"
    )
    assert facts["model"] == "groove"


def test_what_no_related_model_can_is_told(client: Client):
    with pytest.raises(AppError, match="no part can be written"):
        client.predict(handle_file(str(SONG)), "pop-piano", "drums", api_name="/accompany")
    with pytest.raises(AppError, match="chord"):
        client.predict(handle_file(str(TRIO)), "groove", chords="C", api_name="/continue")


def test_music_goes_over_given_chords(client: Client):
    _, (facts,) = client.predict(
        handle_file(str(SONG)),
        "pop-piano",
        prompt_bars=2,
        bars=2,
        chords="F | C",
        api_name="/continue",
    )
    assert facts["chords"]


def test_a_wrong_request_gets_a_sentence(client: Client, tmp_path: Path):
    bad = tmp_path / "bad.mid"
    bad.write_bytes(b"PK\x03\x04 not music")
    with pytest.raises(AppError, match=r"“bad\.mid” is a zip archive"):
        client.predict(handle_file(str(bad)), api_name="/read")
    with pytest.raises(AppError, match="1000 is greater than maximum value 128"):
        client.predict(handle_file(str(TRIO)), bars=1000, api_name="/continue")
    with pytest.raises(AppError, match="There is no model of that name"):
        client.predict(handle_file(str(TRIO)), "x", api_name="/read")


def status(url: str, data: bytes | None = None) -> int:
    try:
        request = urllib.request.Request(
            url, data=data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    "path",
    [
        "/music/unknown.wav",
        "/musicgen/soundfont.sf2",
        "/musicgen/../../pyproject.toml",
        "/musicgen/..%2f..%2fpyproject.toml",
    ],
)
def test_no_path_of_a_request_reaches_the_disk(address: str, path: str):
    assert status(address + path) == 404


def test_files_outside_the_servers_folder_are_refused(address: str):
    assert status(f"{address}/gradio_api/file={quote(str(Path(__file__).resolve()))}") == 403
    call = {
        "data": [
            {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
            "untrained:tiny:groove",
        ]
    }
    asked = urllib.request.Request(
        f"{address}/gradio_api/call/read",
        json.dumps(call).encode(),
        {"Content-Type": "application/json"},
    )
    event = json.load(urllib.request.urlopen(asked, timeout=60))["event_id"]
    answer = urllib.request.urlopen(f"{address}/gradio_api/call/read/{event}", timeout=60).read()
    assert b"event: error" in answer
    assert b"root" not in answer


def test_a_request_that_is_too_large_is_refused(address: str):
    asked = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    asked.putrequest("POST", "/gradio_api/queue/join")
    asked.putheader("Content-Length", str(5 << 20))
    asked.endheaders()  # refused by its head alone
    assert asked.getresponse().status == 413
    asked.close()
    assert status(address) == 200


def test_the_page_lets_the_browser_ask_nobody_else(address: str):
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_who_leaves_takes_their_files_along(address: str, files: Path, tmp_path: Path):
    (server,) = files.glob("musicgen-*")
    client = Client(address, verbose=False, download_files=str(tmp_path))
    before = {path for path in server.iterdir() if path.name != "gradio"}
    client.predict(None, bars=1, api_name="/continue")
    (own,) = {path for path in server.iterdir() if path.name != "gradio"} - before
    assert list(own.rglob("*.mid"))
    client.close()
    late = time.monotonic() + 60
    while own.exists() and time.monotonic() < late:
        time.sleep(0.2)
    assert not own.exists()


def test_every_example_is_bundled_with_its_licence():
    readme = (FILES / "README.md").read_text(encoding="utf-8")
    for name in EXAMPLES:
        assert read_midi(FILES / f"{name}.mid").end_ticks >= 8
        assert f"`{name}.mid`" in readme
    assert {path.stem for path in FILES.glob("*.mid")} == set(EXAMPLES)
