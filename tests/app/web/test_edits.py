"""Edits of the page are changes of the opened file, which is kept through saving and composing."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mido
import numpy as np
import pytest

from app.web.actions import PageActions
from app.web.composing.composer import Composer
from app.web.composing.opened_files import FileReader
from app.web.composing.readers import Readers
from app.web.desk import Asked, Desk, File
from app.web.offered_models import OfferedModels
from tests.tokenization.midi.all_events import all_events
from tests.tokenization.midi.test_changing import gone_and_new
from tests.tokenization.midi.test_keeping import band, notes_at
from tests.tokenization.midi.test_keeping import saved as encoded
from tests.tokenization.notation.scores import bars, note, score
from tokenization.changes import Reading
from tokenization.edit import NotKept
from tokenization.midi.reading import read_midi

MODEL = "untrained:tiny:ensemble"
SAMPLING = {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 3}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    composer = Composer()
    yield Desk(PageActions(OfferedModels(MODEL), composer, FileReader(Readers().ask)))
    composer.close()


def asked(data: bytes, name: str = "song.mid", **plain: Any) -> Asked:
    return Asked(plain={"model": MODEL, **plain}, data=data, name=name)


def opened(desk: Desk, data: bytes, **plain: Any) -> dict[str, Any]:
    answer = desk.open(asked(data, **plain))
    assert isinstance(answer, dict)
    return answer


def saved(desk: Desk, given: Asked) -> bytes:
    answer = desk.save(given)
    assert isinstance(answer, File)
    return answer.data


def written(desk: Desk, data: bytes, name: str = "song.mid", **wanted: Any) -> dict[str, Any]:
    """Return the take of a request."""
    views = desk.write(
        asked(data, name, **{"bars": 1, "variations": 1, "sampling": SAMPLING, **wanted})
    )
    assert isinstance(views, Iterator)
    *_, last = views
    return last["takes"][0]


def rows_of(piece: dict[str, Any]) -> list[list[int]]:
    return [piece["notes"][n : n + 5] for n in range(0, len(piece["notes"]), 5)]


def test_an_empty_file_is_refused_as_such(desk: Desk):
    with pytest.raises(
        ValueError, match=r"^“song.mid” is empty \(0 bytes\): choose a file with notes$"
    ):
        desk.open(asked(b""))


def test_an_edited_note_is_all_that_changes_in_the_saved_file(desk: Desk):
    data = band()
    there = opened(desk, data)
    row = rows_of(there["piece"])[20]
    later = [row[0] + there["piece"]["ticksPerBeat"], row[1], row[2] + 1, row[3], row[4]]
    edits = {"reading": there["reading"], "changes": [{"change": "notes", "rows": [[row, later]]}]}
    gone, new = gone_and_new(data, saved(desk, asked(data, edits=edits)))
    assert {event.kind for event in gone | new} == {"note"}
    assert [e.tick + 480 for e in gone] == [e.tick for e in new]
    again = opened(desk, data, edits=edits)
    assert later[:3] in [one[:3] for one in rows_of(again["piece"])]
    assert again["file"]


def test_composing_on_an_edited_piece_keeps_the_file(desk: Desk):
    data = band()
    there = opened(desk, data)
    row = rows_of(there["piece"])[20]
    edits = {"reading": there["reading"], "changes": [{"change": "notes", "rows": [[row, None]]}]}
    wanted = {"bars": 1, "variations": 1, "sampling": SAMPLING, "edits": edits}
    views = desk.write(asked(data, promptBars=0, **wanted))
    assert isinstance(views, Iterator)
    *_, last = views
    (take,) = last["takes"]
    out = take["midi"] if "kept" not in take else take["kept"]["data"]
    before = saved(desk, asked(data, edits=edits))
    end = max(event.tick for event in all_events(before) if event.kind == "note")
    early = all_events(before)
    lost = [
        e for e in (early - all_events(base64.b64decode(out))).elements() if e.tick < end - 1920
    ]
    assert not lost
    assert take["reading"]["ticks_per_beat"] == take["piece"]["ticksPerBeat"]


def test_a_take_is_edited_as_it_was_read(desk: Desk):
    """An edit of a take finds its notes in the file of the take, and in that for saving, if there is another."""
    views = desk.write(asked(band(), bars=1, variations=1, sampling=SAMPLING, promptBars=4))
    assert isinstance(views, Iterator)
    *_, last = views
    (take,) = last["takes"]
    files = [(base64.b64decode(take["midi"]), take["reading"])]
    if kept := take.get("kept"):
        files.append((base64.b64decode(kept["data"]), kept["reading"]))
    for data, reading in files:
        rows = rows_of(take["piece"])
        for row in (rows[0], rows[len(rows) // 2], rows[-1]):
            edits = {"reading": reading, "changes": [{"change": "notes", "rows": [[row, None]]}]}
            gone, new = gone_and_new(data, saved(desk, asked(data, edits=edits)))
            assert not new
            assert {event.what[0] for event in gone} == {row[2]}


def live() -> bytes:
    """Return a recording with pedals, whose beats are not those of its file; a part doubles another."""
    random = np.random.default_rng(0)
    beats = np.cumsum(300 + 12 * np.sin(np.arange(32) / 3) + random.normal(0, 6, 32)).astype(int)
    tune = [(tick, 150, 60 + n % 7, 60 + n) for n, tick in enumerate(beats.tolist())]
    both = [(tick + n % 5, 200, pitch, 70) for n, (tick, _, pitch, _) in enumerate(tune)]
    low = [(tick + 5, 300, 40 + n % 5, 70) for n, tick in enumerate(beats[::2].tolist())]
    pedals = [
        (tick + at, mido.Message("control_change", control=64, value=value))
        for tick in beats.tolist() for at, value in ((9, 127), (149, 0))
    ]  # fmt: skip
    program = [(0, mido.Message("program_change", channel=1, program=40))]
    return encoded(1, 480, [*notes_at(tune, 0), *pedals], [*program, *notes_at([*both, *low], 1)])


@pytest.mark.parametrize("edits", [False, True])
def test_a_second_job_keeps_a_recording_too(desk: Desk, edits: bool):
    """Its beats are estimated again with the new notes, so the model reads another file than the kept one."""
    data = live()
    take = written(desk, data, kind="infill", first=3, last=3)
    kept, row = take["kept"], rows_of(take["piece"])[0]
    assert kept["reading"]["sources"] == ((0,), (1,))
    changes = [{"change": "notes", "rows": [[row, None]]}] if edits else []
    second = {
        "kept": {"file": kept["data"], "reading": kept["reading"], "read": take["reading"]},
        "edits": {"reading": take["reading"], "changes": changes},
    }
    again = written(desk, base64.b64decode(take["midi"]), kind="infill", first=2, last=2, **second)
    out = base64.b64decode(again["kept"]["data"])
    lines, reading = take["piece"]["lines"], Reading(**kept["reading"])
    first, last = (reading.in_file(lines[bar]) - 20 for bar in (1, 3))
    gone, new = gone_and_new(data, out)
    assert {event.kind for event in gone | new} == {"note"}
    if edits:
        del gone[min(gone)]
    assert all(first <= event.tick < last for event in gone | new)
    assert len([one for one in new if one.tick < reading.in_file(lines[2]) - 20])


@pytest.mark.parametrize("wrong", [
    7, {}, {"changes": 3}, {"changes": [{"change": "x"}]}, {"reading": 3, "changes": []},
    {"reading": {"ticks_per_beat": 0, "sources": [], "file_ticks": [0, 1]}, "changes": []},
])  # fmt: skip
def test_wrong_edits_are_refused(desk: Desk, wrong):
    with pytest.raises(ValueError, match=r"."):
        desk.save(asked(band(), edits=wrong))


def test_a_file_of_another_program_that_changed_since_is_not_edited_at_random(desk: Desk):
    """The page falls back to its own notes on this error."""
    there = opened(desk, band())
    row = rows_of(there["piece"])[0]
    edits = {"reading": there["reading"], "changes": [{"change": "notes", "rows": [[row, None]]}]}
    other = score(bars(note("C", 5, 8)))
    with pytest.raises(NotKept, match="cannot hold the edits"):
        desk.save(replace(asked(other, edits=edits), name="a.musicxml"))
    with pytest.raises(NotKept, match="cannot hold the edits"):
        desk.save(asked(band(bars=1)[:300], edits=edits))


PLAIN: dict[str, Any] = {
    "ticks": 12, "notes": [0, 12, 60, 80, 0, 12, 6, 36, 90, 2], "tempos": [[0, 2]], "meters": [[0, 3, 4]],
    "tracks": [{"name": name, "program": 40, "drum": name == "Kit"} for name in ("Lead", "Silent", "Kit")],
    "chords": [[0, "C_M", 0, ""], [24, "F_7", 1, "F7♯9"]], "key": [-3, 1, 0],
}  # fmt: skip
NO_EDITS = {"reading": None, "changes": []}


def plain_piece(**changes: Any) -> bytes:
    return json.dumps({**PLAIN, **changes}).encode()


def test_a_piece_without_a_file_is_written_to_one(desk: Desk):
    made = {"model": "ü", "seed": 7}
    data = saved(desk, asked(plain_piece(), edits=NO_EDITS, made=made))
    score = read_midi(data)
    assert [(t.name, t.is_drum) for t in score.tracks] == [("Lead", False), ("Kit", True)]
    assert (score.key_signature, score.meters.numerator.tolist()) == ((-3, True), [3])
    assert score.tempos.beats_per_minute.round(2).tolist() == [3.58]  # the slowest possible
    assert [(m.text, m.is_guess) for m in score.markers] == [("Cmaj", False), ("F7♯9", True)]
    assert b'musicgen {"model": "\\u00fc", "seed": 7}' in data
    row = [12, 6, 36, 90, 2]
    later = [{"change": "notes", "rows": [[row, [18, *row[1:]]]]}]
    moved = read_midi(saved(desk, asked(plain_piece(), edits={"reading": None, "changes": later})))
    assert moved.notes.onset_ticks.tolist() == [0, 720]
    assert opened(desk, plain_piece(), edits=NO_EDITS)["piece"]["notes"][:3] == [0, 24, 60]


@pytest.mark.parametrize("wrong", [
    {"notes": [1, 2, 3]}, {"notes": [-1, 1, 60, 80, 0]}, {"notes": [0, 1, 60, 80, 9]}, {"notes": ["x"]},
    {"notes": [0, 1, 200, 80, 0]}, {"ticks": 0}, {"meters": [[0, 3, 3]]}, {"chords": [[0]]}, {"chords": [["a", 1]]},
    {"tempos": [[0]]}, {"tracks": [{"name": "a"}]}, {"notes": []}, {"more": 1}, {"key": [1]},
])  # fmt: skip
def test_what_is_no_piece_is_refused(desk: Desk, wrong: dict[str, Any]):
    with pytest.raises(ValueError, match=r"."):
        saved(desk, asked(plain_piece(**wrong), edits=NO_EDITS))


def test_a_score_is_saved_as_midi_with_its_words_and_provenance(desk: Desk):
    sung = score(bars(note("C", 5, 48, "<lyric><text>sing</text></lyric>")))
    data = saved(desk, asked(sung, name="a.musicxml", made={"seed": 7}))
    assert [one.text for one in read_midi(data).texts.lyrics] == ["sing"]
    assert b'musicgen {"seed": 7}' in data


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<work><work-title>An die Musik</work-title></work>", "An die Musik"),
        ("<movement-title>Gute Nacht</movement-title>", "Gute Nacht"),
        ("<work><work-title>Untitled score</work-title></work>", "a"),
        ("<work><work-title>Take 1</work-title></work>", "a"),
        ("", "a"),
    ],
)
def test_a_score_is_shown_with_its_title(desk: Desk, head: str, title: str):
    data = score(bars(note("C", 5, 48))).replace(b"<part-list>", f"{head}<part-list>".encode())
    assert opened(desk, data, name="a.musicxml")["title"] == title


def test_a_tune_is_shown_with_its_title_and_saved_with_it_and_its_words(desk: Desk):
    tune = b"X:1\nT:The Kesh\nL:1/4\nK:G\nG A B c|\nw:now I walk on\n"
    assert opened(desk, tune, name="a.abc")["title"] == "The Kesh"
    assert opened(desk, tune.replace(b"T:The Kesh\n", b""), name="a.abc")["title"] == "a"
    texts = read_midi(saved(desk, asked(tune, name="a.abc"))).texts
    assert (texts.title, [one.text for one in texts.lyrics]) == (
        "The Kesh",
        ["now", "I", "walk", "on"],
    )
