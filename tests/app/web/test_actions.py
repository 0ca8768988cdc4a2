"""A piece is heard, continued, filled in and accompanied; the server keeps nothing of it."""

import base64
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import musicgen
from app.web.actions import PageActions
from app.web.composing.opened_files import made_here, title_of
from app.web.composing.requests import (
    MusicRequest,
    SamplingValues,
    options_from,
    request_from,
    with_able_model,
)
from app.web.offered_models import EXAMPLES, OfferedModels, example
from app.web.server.sessions import Asker
from musicgen.loading import DEFAULT
from musicgen.model.performer import Performer
from musicgen.storage.checkpoint import Card, save
from tests.tokenization.notation.scores import bars, note, rest, score
from tokenization.formats import midi
from tokenization.midi.limits import MidiError
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Meters
from tokenization.wording import Remark

MODEL, PIANO, LATER = "untrained:tiny:groove", "pop-piano", "untrained:tiny:remi-2"
ASKER = Asker(client="")
SAMPLING = {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 3}
PLAIN = {"model": MODEL, "bars": 1, "variations": 1, "sampling": SAMPLING}


@pytest.fixture(scope="module")
def models() -> OfferedModels:
    return OfferedModels(MODEL)


@pytest.fixture
def actions(models: OfferedModels):
    made = PageActions(models)
    yield made
    made.composer.close()


def written(
    actions: PageActions, data: bytes | None = None, stop_at: int = 0, seed: int = 3, **more
) -> list[dict]:
    given = example("trio-jazz") if data is None and not more.pop("nothing", None) else data
    plain = {**PLAIN, "sampling": {**SAMPLING, "seed": seed}, "promptBars": 2, **more}
    views = []
    for view in actions.write(ASKER, request_from(plain), given, "a.mid", "job"):
        views.append(view)
        if len(views) == stop_at:
            actions.stop("job")
    return views


def test_nothing_is_composed_before_somebody_reads(actions: PageActions):
    looked = []

    def reads_at_the_third_look() -> bool:
        looked.append(actions.composer.requests)
        return len(looked) == 3

    patient = Asker(client="", is_reading=reads_at_the_third_look)
    *_, last = actions.write(
        patient, request_from({**PLAIN, "promptBars": 2}), example("trio-jazz"), "a.mid", "job"
    )
    assert looked == [0, 0, 0]
    assert last["state"] == "done"


def test_an_example_is_shown_as_each_model_hears_it(actions: PageActions):
    trio = actions.open_example("trio-disco", MODEL, fit=True)
    assert (trio["title"], trio["bars"], trio["chosen"], trio["model"]) == (
        "Disco trio",
        16,
        4,
        MODEL,
    )
    assert [track["name"] for track in trio["piece"]["tracks"]] == ["Bass", "Drums", "Other"]
    assert len(trio["piece"]["notes"]) > 5 * 1000
    assert trio["real"]["onset–drum"] > 0.8
    assert trio["notices"] == []
    assert base64.b64decode(trio["file"]) == example("trio-disco")
    piano = actions.open(example("trio-disco"), "disco.mid", PIANO, fit=False)
    assert [track["name"] for track in piano["piece"]["tracks"]] == ["Piano"]
    assert piano["piece"]["chords"]


def test_the_model_is_chosen_by_what_is_in_the_file(actions: PageActions):
    assert actions.open(example("trio-jazz"), "a.mid", PIANO, fit=True)["model"] == MODEL
    assert actions.open(example("piano-g-minor"), "a.mid", MODEL, fit=True)["model"] == DEFAULT
    assert actions.open(example("piano-g-minor"), "a.mid", PIANO, fit=True)["model"] == PIANO
    assert actions.open(example("trio-jazz"), "a.mid", "groove", fit=True)["model"] == "groove"


def test_drums_that_are_left_out_are_told_with_the_model_that_keeps_them(actions: PageActions):
    (told, *_) = actions.open(example("trio-jazz"), "band.mid", PIANO, fit=False)["notices"]
    assert told == {
        "text": "The drums are left out: this model plays the piano.",
        "model": MODEL,
    }


def test_a_waltz_stays_one_where_a_model_knows_its_metre():
    waltz = score(bars(*(note("C", 4, 6) for _ in range(8)), beats=3))
    actions = PageActions(OfferedModels(LATER))
    shown = actions.open(waltz, "waltz.musicxml", PIANO, fit=True)
    assert shown["model"] == LATER
    ticks = shown["piece"]["ticksPerBeat"]
    assert shown["piece"]["lines"][:4] == [0, 3 * ticks, 6 * ticks, 9 * ticks]
    told = actions.open(waltz, "waltz.musicxml", PIANO, fit=False)["notices"]
    assert told[0]["model"] == LATER
    assert "in 3/4" in told[0]["text"]
    views = written(actions, waltz, model=LATER)
    piece = views[-1]["takes"][0]["piece"]
    assert [piece["lines"][3] - piece["lines"][2], len(piece["lines"])] == [3 * ticks, 4]
    actions.composer.close()


def test_a_file_opens_with_the_model_of_its_kind_that_can_do_most():
    actions = PageActions(OfferedModels())
    assert actions.models.first == "pop-piano-2"
    for name, able in (("trio-jazz", "groove-2"), ("piano-g-minor", "pop-piano-2")):
        for model in ("", "groove" if "piano" in name else "pop-piano"):
            assert actions.open(example(name), f"{name}.mid", model, fit=True)["model"] == able
    assert actions.open(example("trio-jazz"), "jazz.mid", "groove", fit=True)["model"] == "groove"
    actions.composer.close()


def test_no_groove_model_is_said_to_keep_a_waltz():
    """Both groove languages lay a piece on bars of 4/4."""
    band = replace(read_midi(example("trio-jazz")), meters=Meters([0], [3], [4]))
    actions = PageActions(OfferedModels())
    for model in ("groove", "groove-2"):
        notices = actions.open(write_midi(band), "band.mid", model, fit=False)["notices"]
        about = [one for one in notices if "in 3/4" in one["text"]]
        assert [one["model"] for one in about] == [None]
    actions.composer.close()


def test_what_is_told_above_the_roll_goes_by_what_it_is_about_and_not_by_its_words(
    actions: PageActions,
):
    band = read_midi(example("trio-jazz"))
    tracks = [
        replace(track, name="estimated drums", is_drum=False) if track.is_drum else track
        for track in band.tracks
    ]
    data = write_midi(band.replace(tracks=tuple(tracks)))
    opened = actions.open(data, "band.mid", MODEL, fit=False)
    assert [text for text in opened["remarks"] if "'estimated drums' is not on channel 10" in text]
    assert opened["notices"] == []
    away = pickle.loads(pickle.dumps(Remark("It has an upbeat.", "upbeat")))
    assert (away, away.about) == ("It has an upbeat.", "upbeat")  # also from another process


def test_views_grow_and_the_last_has_all_there_is(actions: PageActions):
    views = written(actions, bars=2, variations=2, seed=4)
    assert [view["state"] for view in views] == ["running"] * (len(views) - 1) + ["done"]
    notes = [views[0]["takes"][0]["piece"]["notes"][i : i + 5] for i in range(0, 5 * 2000, 5)]
    notes = [row for row in notes if row]
    for view in views[1:-1]:
        change = view["takes"][0]["notes"]
        notes = notes[: change["keep"]] + change["add"]
        assert all(onset <= view["takes"][0]["now"] for onset, *_ in notes)
        assert all(
            on + long <= max(view["takes"][0]["now"], on + 3) for on, long, *_ in notes if on >= 96
        )
    for take in views[-1]["takes"]:
        assert take["region"] == {"first": 2, "stop": 4, "tracks": None}
        assert (len(take["piece"]["lines"]), take["seed"]) == (5, 4)
        midi = base64.b64decode(take["midi"])
        assert 5 * len(read_midi(midi).notes) == len(take["piece"]["notes"])
        assert made_here(midi) == take["provenance"]
        assert len(take["likeness"][0]["quarters"]) == 1  # two bars have no quarters


def test_a_file_over_a_long_line_of_chords_is_known_to_be_made_here():
    made = {"chords": [["C:maj"]] * 1000, "seed": 1}
    take = musicgen.load("untrained:tiny:remi-2").continue_(bars=1, seed=3)[0]
    assert made_here(midi(take.score, provenance=made)) == made


@pytest.mark.parametrize("said", ['{"a": ' + "[" * 11_000 + "}", "{" + '"a":{' * 2000 + "}"])
def test_what_a_file_says_of_itself_without_end_is_not_believed(said: str):
    assert made_here(f"\x00musicgen {said}\x00".encode()) is None


@pytest.mark.parametrize("bars", [[5, 2], [True, True], [0, 1], [1], "12", [[1], [2]]])
def test_bars_that_are_none_are_not_shown_as_new(bars: object, actions: PageActions):
    score = read_midi(example("trio-jazz"))
    data = midi(score, provenance={"written_bars": bars, "prompt_bars": bars})
    assert actions.open(data, "a.mid", MODEL, fit=False)["region"] is None


def test_a_stop_keeps_what_there_is_and_as_many_bars(actions: PageActions):
    views = written(actions, bars=100, stop_at=3)
    take = views[-1]["takes"][0]
    assert views[-1]["state"] == "stopped"
    last = max(take["piece"]["notes"][::5])
    lines = take["piece"]["lines"]
    assert lines[-2] <= last < lines[-1]
    assert len(lines) < 100
    assert actions._jobs == {}


def test_a_held_last_note_adds_no_bar(actions: PageActions):
    for seed in range(4):
        (take,) = written(actions, bars=2, seed=seed)[-1]["takes"]
        assert len(take["piece"]["lines"]) == 5


def test_from_nothing_a_trio_has_its_voices(actions: PageActions):
    for seed in range(3):
        views = written(actions, nothing=True, model="groove", bars=4, variations=2, seed=seed)
        for take in views[-1]["takes"]:
            tracks = take["piece"]["notes"][4::5]
            assert set(tracks) == {0, 1, 2}


def test_sparse_and_dense_are_chosen_among_more(actions: PageActions):
    counts = [
        written(actions, bars=3, seed=5, dense=dense, model="groove")[-1]["takes"][0]["new"]
        for dense in (-1, 1)
    ]
    assert counts[0] < counts[1]


def test_the_pages_own_result_shows_where_the_new_part_began(actions: PageActions):
    take = written(actions, bars=2)[-1]["takes"][0]
    again = actions.open(base64.b64decode(take["midi"]), "song.mid", MODEL, fit=False)
    assert again["region"] == {"first": 2, "stop": 4, "tracks": None}
    assert again["made"]["seed"] == 3


@pytest.mark.parametrize("beats", [4, 3])
def test_bars_are_those_of_the_page_also_where_it_begins_with_empty_ones(beats: int):
    actions = PageActions(OfferedModels(LATER))
    sounding = [note(step, 4, 2) * beats for step in "CDEFGA"]
    song = score(bars(rest(2 * beats), rest(2 * beats), *sounding, beats=beats))
    options = options_from(bars=1, variations=1, sampling=SamplingValues(**SAMPLING))
    asked = MusicRequest(kind="infill", model=LATER, options=options, first=5, last=5, rest=2)
    first, *_ = actions.write(ASKER, asked, song, "a.musicxml", "job")
    (take,) = first["takes"]
    piece = take["piece"]
    found: dict[int, set[int]] = {}
    for onset, pitch in zip(piece["notes"][::5], piece["notes"][2::5], strict=True):
        found.setdefault(sum(line <= onset for line in piece["lines"]), set()).add(pitch)
    assert take["region"] == {"first": 4, "stop": 5, "tracks": None}
    assert found == {3: {60}, 4: {62}, 6: {65}, 7: {67}, 8: {69}}
    assert piece["meters"] == [[0, beats, 4]]
    actions.composer.close()


def test_bars_and_parts_are_written_by_models_that_can():
    actions = PageActions(OfferedModels("untrained:tiny:groove-2"))
    given = example("trio-jazz")
    model = "untrained:tiny:groove-2"
    options = options_from(bars=1, variations=1, sampling=SamplingValues(**SAMPLING))
    infill = MusicRequest(kind="infill", model=model, options=options, first=3, last=3)
    *_, last = actions.write(ASKER, infill, given, "a.mid", "job")
    assert last["takes"][0]["region"] == {"first": 2, "stop": 3, "tracks": None}
    assert last["takes"][0]["provenance"]["written_bars"] == [3, 3]
    bass = MusicRequest(kind="accompany", model="groove", options=options, parts=("bass",))
    asked_of_another = with_able_model(actions.models, bass)
    assert asked_of_another.model == model  # the first of its family that can
    with pytest.raises(ValueError, match="no part"):
        list(actions.write(ASKER, replace(bass, model="pop-piano"), given, "a.mid", "job"))
    with pytest.raises(
        ValueError, match="bars 17 to 18 were asked for, of 16; after the last note"
    ):
        list(actions.write(ASKER, MusicRequest(kind="infill", model=model, options=options, first=17, last=18),
                          given, "a.mid", "job"))  # fmt: skip
    actions.composer.close()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"bars": 129}, "129 bars were asked for; 1 to 128"),
        ({"bars": 0}, "0 bars"),
        ({"bars": 2.9}, r"bars is 2\.9; it must be a whole number"),
        ({"variations": 9}, "9 variations"),
        ({"kind": "hack"}, "that cannot be done to a piece; continue, infill and accompany can"),
        ({"sampling": {**SAMPLING, "seed": None}}, "seed is empty"),
        ({"sampling": {"seed": 1}}, "of sampling, temperature, top_p, top_k and min_p is not said"),
        ({"sampling": [1, 0.95, 0, 0.02, 3]}, "sampling is not an object"),
        ({"kind": "accompany"}, "parts is a list"),
        ({"kind": "infill"}, "first is empty"),
        ({"chords": "C | " * 600}, "letters"),
        ({"chords": "H!"}, "H!"),
    ],
)
def test_wrong_requests_are_refused_in_a_sentence(wrong: dict, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        request_from({**PLAIN, **wrong})
    with pytest.raises(ValueError, match="is not an object"):
        request_from([1])


def test_unknown_names_and_files_are_refused(actions: PageActions):
    with pytest.raises(ValueError, match="no example"):
        actions.open_example("../../etc/passwd", MODEL, fit=True)
    with pytest.raises(ValueError, match="no model of that name here; there are"):
        actions.open_example("trio-jazz", "gpt", fit=False)
    with pytest.raises(MidiError, match=r"“holiday\.mid”"):
        actions.open(b"\xff\xd8 a photograph", "holiday.mid", MODEL, fit=True)


def test_a_title_is_a_name_without_folders():
    assert title_of("C:\\music\\my.song.MID") == "my.song"
    assert title_of("/tmp/a/b.mid") == "b"
    assert title_of("\x00\n.mid") == "Your file"
    assert len(title_of("x" * 500)) == 60


def test_every_example_opens_in_every_language(actions: PageActions):
    for name in EXAMPLES:
        for model in (MODEL, PIANO):
            assert actions.open_example(name, model, fit=False)["bars"] == 16


def test_music_that_meets_a_bound_of_its_model_is_shown_with_its_file(tmp_path: Path):
    made = musicgen.load("untrained:tiny")
    position = {"name": "learned", "max_length": 90}
    config = replace(made.performer.config, position=position, layers=1)
    card = Card(name="x", language=made.language.spec(), trained_length=64)
    save(tmp_path / "model", Performer(config), card)
    actions = PageActions(OfferedModels(str(tmp_path / "model")))
    try:
        *_, last = written(actions, nothing=True, model=str(tmp_path / "model"), bars=90)
    finally:
        actions.composer.close()
    assert last["state"] == "bound"
    assert last["takes"][0]["new"] > 0
    assert last["takes"][0]["midi"]


def test_a_request_without_a_name_is_stopped_by_nobody(actions: PageActions):
    views = actions.write(ASKER, request_from(PLAIN), None, "", "")
    next(views)
    actions.stop("")
    *_, last = views
    assert last["state"] == "done"
