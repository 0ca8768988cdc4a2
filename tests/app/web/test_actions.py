"""A piece is read, continued, infilled and accompanied; the server stores nothing of it."""

import base64
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import musicgen
from app.web import actions as actions_module
from app.web.actions import PageActions
from app.web.composing import opened_files
from app.web.composing.alone import read_here
from app.web.composing.composer import Composer
from app.web.composing.opened_files import FileReader, made_here, title_of
from app.web.composing.readers import Readers
from app.web.composing.requests import MusicRequest, request_from, streamed_takes, unsupported
from app.web.composing.streamed_takes import StreamedTakes, files_of, piece_data
from app.web.offered_models import EXAMPLES, OfferedModels, example
from app.web.page import page_facts
from musicgen.pieces import read_piece
from musicgen.playable import language_of
from tests.tokenization.midi.test_keeping import band, check_kept
from tests.tokenization.notation.musicxml.test_writing import heard
from tests.tokenization.notation.musicxml.test_writing import written as sonata
from tests.tokenization.notation.scores import bars, note, rest, score
from tests.tools.page.own_files import own_files
from tokenization.formats import midi
from tokenization.language import language
from tokenization.midi.reading import DAMAGED, read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Marker, Meters, Score

MODEL, PIANO, LATER = (f"untrained:tiny:{name}" for name in ("groove", "remi", "ensemble"))
SAMPLING = {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 3}
PLAIN = {"model": MODEL, "bars": 1, "variations": 1, "sampling": SAMPLING}
JAZZ = example("trio-jazz")


def offered(first: str | None) -> OfferedModels:
    """Return models of all languages, and the given one as the first."""
    models = OfferedModels(first)
    models.languages |= {name: language_of(name) for name in (MODEL, PIANO, LATER)}
    return models


@pytest.fixture(scope="module")
def composing() -> Iterator[PageActions]:
    """Actions with a composing process."""
    composer = Composer()
    yield PageActions(OfferedModels(MODEL), composer, FileReader(Readers().ask))
    composer.close()


@pytest.fixture
def actions(composing: PageActions, request: pytest.FixtureRequest) -> PageActions:
    """Actions with a given first model, all with the same process."""
    return PageActions(
        offered(getattr(request, "param", MODEL)), composing.composer, composing.reader
    )


def request(kind: str = "continue", model: str = MODEL, **more) -> MusicRequest:
    return replace(request_from(PLAIN), kind=kind, model=model, **more)


def written(
    actions: PageActions, data: bytes | None = JAZZ, seed: int = 3, name: str = "a.mid", **more
) -> list[dict]:
    plain = {**PLAIN, "sampling": {**SAMPLING, "seed": seed}, "promptBars": 2, **more}
    return list(actions.write("", request_from(plain), data, name, "job"))


def test_a_disconnect_ends_the_work(actions: PageActions):
    views = actions.write("", request_from({**PLAIN, "bars": 128}), None, "", "job")
    for _ in range(3):
        next(views)
    assert actions.composer.requests == 1
    views.close()
    late = time.monotonic() + 60
    while actions.composer.requests and time.monotonic() < late:
        time.sleep(0.01)
    assert (actions.composer.requests, actions._jobs) == (0, {})


def test_a_disconnect_ends_work_that_has_not_begun(actions: PageActions, monkeypatch: Any):
    """A view without news lets the server find that nobody is there."""
    monkeypatch.setattr(actions_module, "WAITS_SECONDS", 0.0)
    left: list[bool] = []
    waiting = SimpleNamespace(
        written=0, bars=0, wait=lambda _: False, cancel=lambda: left.append(True)
    )
    composer: Any = SimpleNamespace(requests=1, take=lambda *_, **__: waiting)
    own = PageActions(actions.models, composer, actions.reader)
    views = own.write("", request_from(PLAIN), None, "", "job")
    assert len(next(views)["takes"]) == PLAIN["variations"]
    for _ in range(2):
        assert next(views) == {"state": "running", "takes": []}
    assert left == []
    views.close()
    assert (left, own._jobs) == ([True], {})


@pytest.mark.parametrize("requests", [1, 6])
def test_the_views_of_a_client_take_a_fifth_of_the_time(actions, requests: int, monkeypatch):
    """However many requests it has: the wait for the views of the others, one each, lengthens the pauses."""
    now, pauses, making = 0.0, list[float](), 3.0

    def wait(seconds: float) -> bool:
        nonlocal now
        now, one.written = now + seconds, one.written + 1
        pauses.append(seconds)
        return len(pauses) > 8

    def more(_: Any) -> dict:
        nonlocal now
        now += making
        return {"takes": []}

    class Taken:
        """The lock, which each of the other requests takes before this one."""

        def __enter__(self) -> None:
            nonlocal now
            now += (requests - 1) * making

        def __exit__(self, *_: object) -> None:
            pass

    one = SimpleNamespace(steps=0, written=0, bars=0, bound=None, wait=wait, cancel=lambda: None)
    composer: Any = SimpleNamespace(requests=1, take=lambda *_, **__: one)
    own, lock = PageActions(actions.models, composer, actions.reader), SimpleNamespace(held=Taken())
    work = SimpleNamespace(model=None, order=lambda: None, check=lambda: None)
    taken: Any = SimpleNamespace(work=work, begun=dict, more=more, finished=lambda *_: {})
    monkeypatch.setattr(actions_module, "Lock", lambda: lock)
    monkeypatch.setattr(actions_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(actions_module, "WAITS_SECONDS", np.inf)
    own._views = {}  # type: ignore[assignment]
    list(own._play(taken, actions_module.Wishes(1), "client"))
    later = pauses[1:]
    assert sum(later) == pytest.approx(4 * requests * making * len(later))


def test_a_prompt_is_read_ahead_while_the_server_is_idle(actions: PageActions):
    of_prompt = "", request_from({**PLAIN, "promptBars": 2}), JAZZ, "a.mid"
    for _ in range(2):  # the second replaces the first
        actions.read_ahead(*of_prompt)
        assert actions._ahead is not None
    last = actions._ahead
    assert last.ended.wait(60)
    last.check()
    assert last.steps == 1
    views = actions.write("", request_from({**PLAIN, "bars": 128}), None, "", "job")
    for _ in range(3):
        next(views)
    actions.read_ahead(*of_prompt)
    assert actions._ahead is last
    views.close()


def test_a_piece_is_shown_as_each_model_reads_it(actions: PageActions):
    trio = actions.open_example("trio-disco", MODEL)
    told = [trio[name] for name in ("title", "chosen", "model", "notices")]
    assert told == ["Disco trio", 16, MODEL, []]
    assert [track["name"] for track in trio["piece"]["tracks"]] == ["Bass", "Drums", "Other"]
    assert len(trio["piece"]["notes"]) == 5 * 1214
    assert base64.b64decode(trio["file"]) == example("trio-disco")
    piano = actions.open(JAZZ, "band.mid", PIANO)
    assert [track["name"] for track in piano["piece"]["tracks"]] == ["Piano"]
    assert piano["piece"]["chords"]
    assert any("Left out: " in one["text"] for one in piano["notices"])
    for name in EXAMPLES:
        assert actions.open_example(name, MODEL)["chosen"] == 16


def test_it_is_a_notice_that_a_file_is_damaged(actions: PageActions):
    opened = actions.open(JAZZ[:-100], "half.mid", MODEL)
    assert [one["text"] for one in opened["notices"]] == [DAMAGED]
    assert DAMAGED not in opened["remarks"]


def test_files_are_not_read_in_the_server_process(actions: PageActions, monkeypatch):
    for name in ("read_file", "piece_of", "notated"):
        monkeypatch.setattr(opened_files, name, None)  # in this process only
    assert actions.open(JAZZ + b"\0", "a.mid", PIANO)["chosen"] == 16
    assert actions.reader.notated(JAZZ, "a.mid").startswith(b"<?xml")


def test_a_waltz_keeps_its_metre_if_the_model_supports_it(actions: PageActions):
    able = PageActions(offered(LATER), actions.composer, actions.reader)
    waltz = score(bars(*(note("C", 4, 6) for _ in range(8)), beats=3))
    shown = able.open(waltz, "waltz.musicxml", "")
    assert shown["model"] == LATER
    ticks = shown["piece"]["ticksPerBeat"]
    assert shown["piece"]["lines"][:4] == [0, 3 * ticks, 6 * ticks, 9 * ticks]
    told = able.open(waltz, "waltz.musicxml", PIANO)["notices"]
    assert "Bars of 3/4 are written in 4/4" in told[0]["text"]
    piece = written(able, waltz, model=LATER)[-1]["takes"][0]["piece"]
    assert [piece["lines"][2] - piece["lines"][1], len(piece["lines"])] == [3 * ticks, 4]
    band = write_midi(replace(read_midi(JAZZ), meters=Meters(*np.array([[0], [3], [4]]))))
    opened = actions.open(band, "band.mid", MODEL)
    assert sum("3/4" in one["text"] for one in opened["notices"]) == 1
    assert not {one["text"] for one in opened["notices"]} & {*opened["remarks"]}


def test_views_grow_and_the_last_is_complete(actions: PageActions):
    views = written(actions, bars=2, variations=2, seed=4)
    assert [view["state"] for view in views] == ["running"] * (len(views) - 1) + ["done"]
    flat = views[0]["takes"][0]["piece"]["notes"]
    notes = [flat[i : i + 5] for i in range(0, len(flat), 5)]
    for view in views[1:-1]:
        change, now = view["takes"][0]["notes"], view["takes"][0]["now"]
        notes = notes[: change["keep"]] + change["add"]
        assert all(onset <= now for onset, *_ in notes)
        assert all(on + long <= max(now, on + 3) for on, long, *_ in notes if on >= 96)
    file = b""
    for take in views[-1]["takes"]:
        assert take["region"] == {"first": 2, "stop": 4, "tracks": None}
        assert (len(take["piece"]["lines"]), take["seed"]) == (5, 4)
        file = base64.b64decode(take["midi"])
        assert 5 * len(read_midi(file).notes) == len(take["piece"]["notes"])
        assert made_here(file) == take["provenance"]
    again = actions.open(file, "song.mid", MODEL)
    assert again["made"]["seed"] == 4


def test_provenance_in_files_is_validated():
    made = {"chords": [["C:maj"]] * 1000, "seed": 1}
    take = musicgen.load(LATER).continue_(bars=1, idea={"parts": ["piano"]})[0]
    assert made_here(midi(take.score, provenance=made)) == made
    for said in ('{"a": ' + "[" * 11_000 + "}", "{" + '"a":{' * 2000 + "}"):  # without end
        assert made_here(f"\x00musicgen {said}\x00".encode()) is None


@pytest.mark.parametrize(("job", "ending"), [("job", "stopped"), ("", "done")])
def test_a_named_request_can_be_stopped(actions: PageActions, job: str, ending: str):
    bars = 100 if job else 1
    views = actions.write("", request_from({**PLAIN, "bars": bars}), None, "", job)
    next(views)
    actions.stop(job)
    *_, last = views
    assert (last["state"], actions._jobs) == (ending, {})


def test_a_take_of_a_named_request_can_be_settled(actions: PageActions):
    views = actions.write("", request_from({**PLAIN, "variations": 2}), None, "", "job")
    next(views)
    for job, take in (("job", 1), ("job", 2), ("another", 0)):
        actions.settle(job, take)
    assert actions._jobs["job"].settled == {1}  # it has no third take
    assert [*views][-1]["state"] == "done"


def test_a_held_last_note_adds_no_bar(actions: PageActions):
    for seed in range(4):
        (take,) = written(actions, bars=2, seed=seed)[-1]["takes"]
        assert len(take["piece"]["lines"]) == 5


@pytest.mark.parametrize("actions", [LATER], indirect=True)
@pytest.mark.parametrize("beats", [4, 3])
def test_bars_match_the_page_when_a_piece_begins_with_rests(actions, beats: int):
    sounding = [note(step, 4, 2) * beats for step in "CDEFGA"]
    song = score(bars(rest(2 * beats), rest(2 * beats), *sounding, beats=beats))
    asked = request("infill", LATER, first=5, last=5, rest=2)
    first, *_ = actions.write("", asked, song, "a.musicxml", "job")
    (take,) = first["takes"]
    piece = take["piece"]
    found: dict[int, set[int]] = {}
    for onset, pitch in zip(piece["notes"][::5], piece["notes"][2::5], strict=True):
        found.setdefault(sum(line <= onset for line in piece["lines"]), set()).add(pitch)
    assert take["region"] == {"first": 4, "stop": 5, "tracks": None}
    assert found == {3: {60}, 4: {62}, 6: {65}, 7: {67}, 8: {69}}
    assert piece["meters"] == [[0, beats, 4]]


@pytest.mark.parametrize("actions", [LATER], indirect=True)
def test_bars_and_parts_are_rewritten_by_models_that_support_it(actions: PageActions):
    infill = request("infill", LATER, first=3, last=3)
    *_, last = actions.write("", infill, JAZZ, "a.mid", "job")
    assert last["takes"][0]["region"] == {"first": 2, "stop": 3, "tracks": None}
    bass = request("accompany", MODEL, parts=("bass",))
    assert [*unsupported(language("remi"))] == ["ends", "infill", "accompany", "chords", "plan"]
    assert not unsupported(language("ensemble"))
    for wrong, data, match in (
        (replace(bass, model=PIANO), JAZZ, "no part"),
        (
            replace(infill, first=17, last=18),
            JAZZ,
            "bars 17 to 18 are not within the 16 bars of the piece; continue",
        ),
        (
            replace(infill, first=3, last=2),
            JAZZ,
            "bars 3 to 2 are not within the 16 bars of the piece$",
        ),
        (infill, None, "there is no piece yet"),
    ):
        with pytest.raises(ValueError, match=match):
            list(actions.write("", wrong, data, "a.mid", "job"))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"bars": 129}, "bars: must be a whole number from 1 to 128"),
        ({"bars": 0}, "bars: must be a whole number from 1 to 128"),
        *[({"bars": odd}, "^bars: ") for odd in (None, 2.9, "four", True, [4], float("nan"), float("inf"))],
        ({"variations": 9}, "variations: "),
        ({"kind": "hack"}, "kind: must be 'continue', 'infill' or 'accompany'"),
        ({"sampling": {**SAMPLING, "seed": None}}, "^sampling: must be a number"),
        ({"sampling": {**SAMPLING, "seed": 0.5}}, "seed"),
        ({"sampling": {**SAMPLING, "<b>": "x"}}, "^sampling: must be a number"),
        ({"sampling": {**SAMPLING, "temperature": -1}}, "temperature is -1"),
        ({"sampling": [1, 0.95, 0, 0.02, 3]}, "sampling: "),
        ({"kind": "accompany"}, "parts must be a list"),
        ({"kind": "accompany", "parts": ["x"] * 33}, "parts: must have at most 32 items"),
        ({"chords": "C | " * 501}, "chords: must have at most 2000 characters"),
        ({"chords": "H!"}, "H!"),
        ({"idea": [1]}, "^idea: "),
        ({"idea": {"tempo": "fast"}}, "^idea: must be a number"),
        ({"idea": {"parts": 7}}, "^idea: "),
        ({"plan": {"density": "4"}}, "^plan: "),
        ({"plan": {"<b>": [1]}}, "^plan: must be 'density', 'register' or 'loudness'$"),
        ({"plan": {"density": [1] * 129}}, "plan: must have at most 128 items"),
        ({"plan": {"loudness": ["loud"]}}, "^plan: must be a number"),
    ],
)  # fmt: skip
def test_invalid_requests_are_refused_in_one_sentence(wrong: dict, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        request_from({**PLAIN, **wrong})
    with pytest.raises(ValueError, match="is not an object"):
        request_from([1])


@pytest.mark.parametrize("actions", [LATER], indirect=True)
def test_chords_are_written_where_there_are_pitches_and_some_are_to_be_replaced(actions):
    files, chords = own_files(), {"kind": "accompany", "parts": ["chords"], "model": LATER}
    with pytest.raises(ValueError, match="only drums, which have no chords"):
        written(actions, files["drums only"].data, **chords)
    chords["name"] = "a.musicxml"
    sheet = files["lead sheet"].data  # in which all are given
    with pytest.raises(ValueError, match="unlock those that are to be replaced"):
        written(actions, sheet, **chords, keepsChords=True)
    *_, last = written(actions, sheet, **chords)
    assert last["takes"][0]["piece"]["chords"]


@pytest.mark.parametrize("actions", [LATER], indirect=True)
def test_a_plan_is_passed_to_the_model(actions: PageActions):
    plan = {"density": [1, None], "loudness": [None, 100]}
    asked = {"model": LATER, "bars": 2, "plan": plan}
    [take] = written(actions, JAZZ, **asked)[-1]["takes"]
    assert take["provenance"]["plan"] == plan
    with pytest.raises(ValueError, match="plan"):
        written(actions, JAZZ, **{**asked, "model": MODEL})
    with pytest.raises(ValueError, match="has 1 numbers for 2 bars"):
        written(actions, JAZZ, **{**asked, "plan": {"density": [1]}})


def test_an_idea_is_passed_to_models_that_support_it(actions: PageActions):
    idea = {"style": "song", "key": "", "tempo": 90, "metre": "3/4", "parts": ["flute", "bass"]}
    asked = {"model": "ensemble", "idea": {**idea, "form": "A A"}, "bars": 2, "promptBars": None}
    made = written(actions, None, **asked)[-1]["takes"][0]["provenance"]
    assert made["idea"] == {name: said for name, said in idea.items() if said}
    assert made["plan"] == {"form": "A A"}
    with pytest.raises(ValueError, match="begins without a style or key"):
        written(actions, None, **{**asked, "model": PIANO})
    known = {row["name"]: row["idea"] for row in page_facts(actions.models, "")["models"]}
    assert known[PIANO] is known[MODEL] is None
    for name in ("style", "key", "metre", "parts"):
        for one in known["ensemble"][name]:  # all are accepted
            language("ensemble").beginning({name: [one] if name == "parts" else one})


CHORD = "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>"


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("TUNE.ABC", b"\xff\xfb\x90d", "contains no notes"),
        ("lead.musicxml", score(bars(CHORD + rest(8))), "holds chords but no notes: add a melody"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(name: str, data: bytes, wrong: str):
    with pytest.raises(ValueError, match=f"^“{name}” {wrong}"):
        FileReader(read_here).open(data, name, language("remi"))


@pytest.mark.parametrize("actions", [LATER], indirect=True)
def test_a_take_is_written_into_the_opened_file(actions: PageActions):
    [take] = written(actions, sonata(), name="a.musicxml", model=LATER, promptBars=8)[-1]["takes"]
    assert base64.b64decode(take["midi"]).startswith(b"MThd")
    assert (take["kept"]["ending"], take["kept"]["same"]) == (".musicxml", True)
    assert not heard(sonata()) - heard(base64.b64decode(take["kept"]["data"]))
    data = band(1, 96)
    [take] = written(actions, data, model=LATER)[-1]["takes"]
    assert not {"kept", "notKept"} & {*take}
    check_kept(data, base64.b64decode(take["midi"]), 2 * 4 * 96)
    [take] = written(actions, data[:-30], model=LATER)[-1]["takes"]
    said = "Written from the notes alone, not into your file: the file is damaged"
    assert take["notKept"].startswith(said)


def test_a_title_is_a_file_name_without_folders():
    assert title_of("C:\\music\\my.song.MID") == "my.song"
    assert title_of("/tmp/a/b.mid") == "b"
    assert title_of("\x00\n.mid") == "Your file"
    assert len(title_of("x" * 500)) == 60


# The page gets what is in the score, also while it is streamed.


def streamed(spoken: str, kind: str, *, ends: bool = False, **more) -> StreamedTakes:
    """Return the takes of a request for an example, before the first note."""
    name, trio = f"untrained:tiny:{spoken}", spoken.startswith("groove")
    model = musicgen.load(name)
    request = MusicRequest(kind=kind, model=name, bars=9, seed=1, ends=ends, **more)
    data = example("trio-jazz" if trio else "piano-c-major")
    return streamed_takes(model, read_piece(model.language, data, name="A piece"), request)


@pytest.mark.parametrize("kind", ["continue", "infill"])
def test_takes_that_have_not_begun_are_made_once(kind: str, monkeypatch):
    asked = streamed("ensemble", kind, variations=8, first=5, last=9)
    alone, made = streamed("ensemble", kind, first=5, last=9).begun(), []
    take = type(asked.work)._take
    monkeypatch.setattr(type(asked.work), "_take", lambda *given: made.append(0) or take(*given))
    takes = asked.begun()["takes"]
    assert len(made) == 1
    assert takes == [{**alone["takes"][0], "number": number} for number in range(8)]
    assert asked.more() is None


@pytest.mark.parametrize(
    ("spoken", "kind", "more", "first", "begun"),
    [
        ("ensemble", "accompany", {"parts": ("bass",)}, 0, 1),
        ("ensemble", "infill", {"first": 5, "last": 9}, 4, 1),
        ("ensemble", "continue", {"prompt_bars": 4, "ends": True}, 4, 1),
        ("groove", "continue", {"prompt_bars": 4}, 4, 0),  # it has no bar token
    ],
)
def test_silent_bars_are_progress(spoken: str, kind: str, more: dict, first: int, begun: int):
    resting = streamed(spoken, kind, **more)
    lines = resting.begun()["takes"][0]["piece"]["lines"]
    assert resting.more(0) is None
    for since in (2, 3):  # bars that have begun, of which all but the last are complete
        view = resting.more(since)
        assert view is not None
        assert view["takes"][0]["now"] == lines[first + begun + since - 1]
        assert view["takes"][0]["notes"]["add"] == []
        assert resting.more(since) is None


class Last:
    """A critic that prefers the last take, and while it is written the first."""

    def rank(self, heard: object, new: object) -> tuple[int, float]:
        return 0, 0.0

    def best(self, heard: list, new: object, each: int, settled: Collection[int]) -> list[int]:
        return [n * each + (0 if n in settled else each - 1) for n in range(len(heard) // each)]


@pytest.mark.parametrize(("state", "row"), [("done", 2), ("bound", 2), ("stopped", 0)])
def test_of_several_takes_the_first_is_shown_and_the_best_at_the_end(state: str, row: int):
    views = streamed("ensemble", "continue", prompt_bars=4, draw=3)
    views.work.model = replace(views.work.model, read_critic=lambda: Last())
    assert len(views.begun()["takes"]) == 1
    rows = views.work.finish().sequences()
    assert len(rows) == 3
    assert views.more(9) is not None
    [take] = views.finished(state, 1, lambda take, _: {"ids": take.ids.tolist()})["takes"]
    assert take["ids"] == rows[row].tolist()
    assert take["provenance"].get("best_of") == (None if state == "stopped" else 3)


def test_a_take_that_was_heard_stays_though_the_critic_prefers_another():
    views = streamed("ensemble", "continue", prompt_bars=4, draw=2, variations=2)
    views.work.model = replace(views.work.model, read_critic=lambda: Last())
    views.begun()
    rows = views.work.finish().sequences()
    found = views.finished("done", 1, lambda take, _: {"ids": take.ids.tolist()}, {0})["takes"]
    assert [take["ids"] for take in found] == [rows[0].tolist(), rows[3].tolist()]
    assert [take["provenance"].get("best_of") for take in found] == [None, 2]


# A metre is written before its first note, which may come with a later view.
@pytest.mark.parametrize("begun", [0, 3])
def test_bar_lines_follow_a_new_metre(begun: int):
    takes = streamed("ensemble", "continue", prompt_bars=4)
    lines = takes.begun()["takes"][0]["piece"]["lines"]
    (take,) = takes.work.takes()
    meters, bar = take.score.meters, lines[1]
    new = (5 * bar, 3, 4)
    waltz = Meters(*(np.append(*both) for both in zip(meters.columns, new, strict=True)))
    takes.work.takes = lambda **_: [replace(take, score=take.score.replace(meters=waltz))]
    view = takes.more(begun)
    assert view is not None
    (grown,) = view["takes"]
    assert grown["meters"] == {"keep": 1, "add": [[5 * bar, 3, 4]]}
    kept, added = grown["lines"]["keep"], grown["lines"]["add"]
    assert (kept, added[0], len(lines)) == (6, 5 * bar + bar * 3 // 4, kept + len(added))
    assert grown["now"] in [*lines[:kept], *added]


@pytest.mark.parametrize(
    ("kind", "more", "bars"),
    [("continue", {"prompt_bars": 4}, 4), ("infill", {"first": 5, "last": 9}, 16)],
)
def test_a_stopped_continuation_is_cut_a_stopped_infill_is_not(kind: str, more: dict, bars: int):
    takes = streamed("ensemble", kind, **more)
    takes.begun()
    (take,) = takes.finished("stopped", 1.0, files_of)["takes"]
    assert len(take["piece"]["lines"]) == bars + 1


def test_piece_data_has_all_notes_in_order():
    score = language("groove").arrange(read_midi(example("trio-jazz")))
    drawn = piece_data(score, 20)
    rows = np.array(drawn["notes"]).reshape(-1, 5)
    assert np.array_equal(rows, np.stack(score.notes.columns, axis=-1))
    assert drawn["lines"] == [4 * score.ticks_per_beat * bar for bar in range(21)]
    assert [track["drum"] for track in drawn["tracks"]] == [False, True, False]
    assert drawn["tempos"] == [[0, 120.0]]
    assert drawn["meters"] == [[0, 4, 4]]
    empty = piece_data(Score(ticks_per_beat=8, markers=(Marker(0, "N_N"),)), 0)
    assert (empty["notes"], empty["lines"], empty["chords"]) == ([], [0, 32], [[0, "N_N", 0, ""]])
    song = language("remi").arrange(read_midi(example("piano-g-minor")))
    assert piece_data(song, 1)["centre"] in range(-1, 3)  # around it are F♯ and E♭
