"""`POST /write`: a file in, a file out."""

import base64
import io
import json
import stat
import time
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

from app.web import actions, guard, one_step
from app.web.actions import PageActions
from app.web.composing.alone import OwnComposer, read_here
from app.web.composing.engines import Limits
from app.web.composing.file_requests import in_piece
from app.web.composing.opened_files import FileReader
from app.web.offered_models import OfferedModels, example
from app.web.whereabouts import announced, whereabouts
from musicgen.pieces import piece_of
from musicgen.playable import find
from tests.app.web.browser import MODEL, started
from tests.app.web.test_guard import OWN, SILENCE, ask
from tests.tokenization.notation.scores import bars, note, score
from tokenization.analysis.beats import interpolate
from tokenization.analysis.metres import bar_lines
from tokenization.formats import read_file
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.midi.rows import rows_of
from tokenization.midi.writing import write_midi
from tokenization.score import Meters, Notes, Score, Tempos, Track

TRIO = example("trio-jazz")  # 16 bars of 768 ticks; bass, drums and other


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.address, timeout=60) as made:
        yield made


def written(client: httpx.Client, data: bytes = TRIO, **options: Any) -> httpx.Response:
    return client.post("/write", content=data, params=options)


def rows(data: bytes) -> set[tuple[int, ...]]:
    return {tuple(row) for row in rows_of(data)["notes"]}


def in_bars(found: set[tuple[int, ...]], first: int, last: int) -> set[tuple[int, ...]]:
    return {row for row in found if (first - 1) * 768 <= row[1] < last * 768}


def test_some_bars_are_rewritten_and_all_else_stays(client: httpx.Client):
    answer = written(client, do="rewrite", bars="5-8", parts="Bass", seed=3)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/midi")
    before, after = rows(TRIO), rows(answer.content)
    old = {row for row in in_bars(before, 5, 8) if row[0] == 1}
    assert old
    assert before - old == before & after
    alone = written(client, do="rewrite", bars="5-8", parts=0, seed=3, result="new")
    assert rows(alone.content) == after - (before - old)
    assert {row[0] for row in rows(alone.content)} == {1}
    assert len(read_midi(alone.content).tempos) == len(read_midi(TRIO).tempos)


def test_each_action_writes_what_it_names(client: httpx.Client):
    before = rows(TRIO)
    for options, kept, new in (
        ({"do": "continue", "bars": 2}, before, (17, 18)),
        ({"do": "continue", "bars": "5-6"}, in_bars(before, 1, 4), (5, 6)),
        ({"do": "end", "bars": 2}, before, (17, 18)),
        ({"do": "rewrite", "bars": "16-18"}, in_bars(before, 1, 15), (16, 18)),
        ({"do": "accompany", "bars": "3-4", "parts": "+banjo"}, before, (3, 4)),
        ({"do": "harmonise", "bars": 3}, before, (3, 3)),
    ):
        found = rows(written(client, **options).content)
        assert {row[1:4:2] for row in kept} == {row[1:4:2] for row in found & kept}, options
        assert found - kept == in_bars(found - kept, *new), options


def test_the_same_is_heard_and_written_as_by_the_library(client: httpx.Client):
    """A bridge gets what the page gets: all other parts and the bars around are heard."""
    model = find(MODEL)
    for options, take in (
        ({"do": "accompany", "parts": "bass"}, model.accompany(TRIO, ["bass"], seed=3)[0]),
        (
            {"do": "rewrite", "bars": "5-8", "parts": "bass,drums"},
            model.infill(TRIO, (5, 8), parts=["bass", "drums"], seed=3)[0],
        ),
    ):
        found = rows(written(client, TRIO, **options, seed=3).content)
        assert {(row[0], row[1], row[3]) for row in found} == {
            (row[0], row[1], row[3]) for row in rows(take.midi)
        }


def test_a_form_json_and_lines_of_progress_are_answered(client: httpx.Client):
    asked = {"do": "rewrite", "bars": "5-6", "seed": 1, "result": "new", "temperature": 0.9}
    plain = written(client, **asked).content
    as_form = client.post("/write", data=asked, files={"file": ("a.mid", TRIO)})  # type: ignore[arg-type]
    as_json = client.post(
        "/write",
        json={**asked, "file": base64.b64encode(TRIO).decode()},
        headers={"accept": "application/json"},
    )
    lines = client.post("/write", params=asked, content=TRIO, headers={"accept": one_step.LINES})
    *progress, last = map(json.loads, lines.text.splitlines())
    assert progress[0] == {"bars": 0, "of": 2}
    assert rows(as_form.content) == rows(plain)
    (take,) = as_json.json()["takes"]
    assert rows(base64.b64decode(take["file"])) == rows(plain)
    assert take == last["takes"][0]
    assert {tuple(row) for row in take["notes"]} == rows(plain)
    assert take["range"] == [4 * 768, 6 * 768]
    assert [track["name"] for track in take["tracks"]][1:] == ["Bass", "Drums", "Other"]


def test_several_takes_are_an_archive_and_differ(client: httpx.Client):
    answer = written(client, do="continue", bars=2, variations=2)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        takes = [rows(archive.read(name)) for name in ("1.mid", "2.mid")]
    assert takes[0] != takes[1]


def test_musicxml_comes_back_as_musicxml(client: httpx.Client):
    tune = score(bars(*(note("C", 4, 8) for _ in range(4))))
    asked = {"do": "continue", "bars": 2, "seed": 1}
    answer = written(client, tune, **asked)
    assert answer.headers["content-type"] == one_step.KINDS[".musicxml"], answer.text
    whole = ElementTree.fromstring(answer.content)
    alone = ElementTree.fromstring(written(client, tune, **asked, result="new").content)
    for found, count in ((whole, 6), (alone, 2)):
        assert [len(part.findall("measure")) for part in found.findall("part")] == [count]
    new = [*alone.iter("measure")]
    assert new[0].findtext("attributes/time/beats") == "4"
    for one, other in zip(new, [*whole.iter("measure")][4:], strict=True):
        assert [*map(ElementTree.tostring, one.iter("note"))] == [
            *map(ElementTree.tostring, other.iter("note"))
        ]


def test_an_excerpt_has_the_written_bars_and_parts_alone(client: httpx.Client):
    tunes = [bars(*(note(step, 4, 8) for _ in range(4))) for step in "CE"]
    alone = written(client, score(*tunes), do="rewrite", bars="2-3", parts=1, result="new")
    root = ElementTree.fromstring(alone.content)
    assert [part.get("id") for part in root.findall("part")] == ["P2"]
    assert [entry.get("id") for entry in root.iter("score-part")] == ["P2"]
    assert len(root.findall("part/measure")) == 2
    assert root.findtext("part/measure/attributes/divisions")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"do": "fly"}, "Do must be"),
        ({"bars": "5-4"}, "Bars must be the first and the last"),
        ({"flavour": 1}, "unknown name; there are do, bars"),
        ({"do": "rewrite"}, "Bars are missing"),
        ({"do": "accompany"}, "Parts are missing"),
        ({"do": "accompany", "parts": "kazoo"}, "no track or instrument 'kazoo'"),
        ({"do": "accompany", "parts": 9}, "no track 9"),
        ({"do": "continue", "parts": "bass"}, "Parts are not possible"),
        ({"do": "rewrite", "bars": "20-24"}, "begin 3 after the last with notes"),
        ({"variations": 9}, "variations: must be a whole number from 1 to 8"),
        ({"bars": 129}, "bars: must be a whole number from 1 to 128"),
        ({"seed": -1}, "Seed is -1"),
        ({"density": "many"}, "plan: must be"),
    ],
)  # fmt: skip
def test_what_is_impossible_is_said_in_one_sentence(client: httpx.Client, options: dict, said: str):
    answer = written(client, **options)
    assert answer.status_code == 400
    sentence = answer.json()["detail"]
    assert said in sentence
    assert sentence.count(". ") == 0
    assert sentence.endswith((".", ")."))


def test_what_is_no_request_is_said_in_one_sentence(client: httpx.Client):
    for more in (
        {"content": b""},
        {"content": b"no music"},
        {"content": b"[", "headers": {"content-type": one_step.JSON}},
        {"json": {"file": "???"}},
        {
            "content": b"--X\r\nnothing",
            "headers": {"content-type": "multipart/form-data; boundary=X"},
        },
    ):
        answer = client.post("/write", **more)  # type: ignore[arg-type]
        assert answer.status_code == 400, more
        assert answer.json()["detail"].endswith(".")


def test_a_request_is_of_limited_size_and_of_the_same_site(client: httpx.Client):
    assert ask("POST", "/write", SILENCE, content_length=str(guard.WRITE_BYTES + 1))[0] == 413
    large = written(client, bytes(guard.UPLOAD_BYTES + 1))
    assert (large.status_code, "limit of 1024 KB" in large.text) == (413, True)
    assert ask("POST", "/write", origin="http://evil.example")[0] == 403
    assert ask("POST", "/write", host="evil.example")[0] == 421
    assert ask("POST", "/write", **OWN)[0] == 200


@pytest.mark.parametrize("limits", [Limits(seconds=0.2), Limits(tokens=60)])
def test_writing_ends_at_the_limits(limits: Limits, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(actions, "LIMITS", limits)
    own = PageActions(OfferedModels(MODEL), OwnComposer(), FileReader(read_here))
    sent = one_step.Sent.checked({"do": "continue", "bars": 128}, TRIO, "", "")
    *_, last = one_step.OneStep(own).views(sent)
    assert last["state"] == "late"
    assert len(last["takes"][0]["notes"]) < 200


def test_a_client_that_leaves_stops_the_writing(client: httpx.Client):
    asked = {"do": "continue", "bars": 100}  # held by this server until it is stopped
    with client.stream(
        "POST", "/write", params=asked, content=TRIO, headers={"accept": one_step.LINES}
    ) as answer:
        assert json.loads(next(answer.iter_lines()))["of"] == 100
    with pytest.raises(httpx.ReadTimeout):
        client.post("/write", params=asked, content=TRIO, timeout=1)
    assert written(client, do="continue", bars=1).status_code == 200


@pytest.mark.parametrize("more", [("--known-as", "music.example"), ()])
def test_other_programs_find_the_server_and_need_its_token_if_it_is_open(more, tmp_path: Path):
    path = tmp_path / ".musicgen" / "server.json"
    with started("--model", MODEL, *more, HOME=str(tmp_path)) as server:
        while not path.exists():
            time.sleep(0.01)
        said = json.loads(path.read_text())
        assert said["address"].rstrip("/") == server.address
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        wrong = 401 if more else 400  # 400: a file is missing
        for token, status in (("", wrong), ("x", wrong), (said["token"], 400)):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = httpx.post(f"{server.address}/write", headers=headers)
            assert answer.status_code == status, answer.text
            assert not said["token"] or said["token"] not in answer.text
    assert not path.exists()


def test_the_file_of_another_server_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    with announced("http://127.0.0.1:1/", "a"):
        other = announced("http://127.0.0.1:2/", "b")
        other.__enter__()
    assert json.loads(whereabouts().read_text())["token"] == "b"


# Bars of the file are those of the request, whatever the model reads.


def melody(signatures: list[tuple[int, int, int]], begin: int, beats: int = 48) -> bytes:
    """Return a melody in quarters from a beat on, under time signatures (beat, top, low)."""
    onsets = np.arange(begin, beats) * 480
    pitches = 60 + onsets // 480 * 5 % 12
    notes = Notes(onsets, np.full_like(onsets, 480), pitches, np.full_like(onsets, 80), onsets * 0)
    meters = Meters(*(np.array(column) for column in zip(*signatures, strict=True)))
    meters = meters.replace(onset_ticks=meters.onset_ticks * 480)
    tempos = Tempos(np.array([0]), np.array([120.0]))
    tracks = (Track("Tune", 73),)
    return write_midi(
        Score(notes=notes, tracks=tracks, meters=meters, tempos=tempos, ticks_per_beat=480)
    )


@pytest.mark.parametrize(
    ("signatures", "begin", "bars", "ticks"),
    [
        ([(0, 4, 4)], 0, (3, 4), (8, 16)),
        ([(0, 4, 4)], 8, (5, 6), (16, 24)),  # two bars of rest before the first note
        ([(0, 4, 4)], 9, (2, 4), (4, 16)),  # it begins in them
        ([(0, 3, 4)], 0, (3, 3), (6, 9)),
        ([(0, 1, 4), (1, 4, 4)], 0, (3, 4), (5, 13)),  # a pickup
        ([(0, 1, 4), (1, 4, 4)], 0, (1, 1), (0, 1)),
        ([(0, 7, 8)], 0, (3, 4), (7, 14)),  # the model reads two bars for each
        ([(0, 4, 4), (16, 3, 4), (28, 4, 4)], 0, (6, 9), (19, 32)),
    ],
)
def test_bars_are_those_of_the_file(signatures, begin, bars, ticks):
    file = read_file(melody(signatures, begin), name="a.mid")
    piece = piece_of(language("ensemble"), file, "a")
    piece, first, last, stop = in_piece(piece, file, *bars)
    lines = bar_lines(piece.score, last) / piece.score.ticks_per_beat
    found = interpolate(lines, *piece.score.file_times.columns)[[first - 1, last]] / 480
    assert (max(0, found[0]), found[1]) == ticks
    assert stop == 480 * ticks[1]


def test_two_bars_of_an_odd_metre_are_continued_by_two(client: httpx.Client):
    tune = melody([(0, 7, 8)], 0, 28)  # eight bars
    for asked in (2, "9-10"):
        found = rows(written(client, tune, do="continue", bars=asked, result="new").content)
        assert found
        assert all(row[1] >= 28 * 480 and row[1] + row[2] <= 35 * 480 for row in found)
