"""A visitor opens, continues, goes on from a result and goes back; each sees only their own."""

import pytest

from app.service import Wish
from app.web.server.doorman import Asker
from app.web.server.sessions import MOST_TUNES, Sessions
from app.web.shelf import Shelf
from app.web.studio import EXAMPLES, NOTHING, Studio, example, title_of
from tokenization.midi import MidiError, read_midi

MODEL, PIANO = "untrained:tiny:groove", "pop-piano"


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf(MODEL)


@pytest.fixture
def studio(shelf: Shelf):
    sessions = Sessions()
    yield Studio(shelf, sessions)
    sessions.close()
    assert not sessions.folder.exists()


def continued(studio: Studio, visitor: str, bars: int = 1, prompt: int = 2, **wish) -> list[dict]:
    return list(
        studio.go_on(Asker(name=visitor, client=""), MODEL, prompt, Wish(bars=bars, **wish))
    )


def test_an_example_is_shown_as_each_model_hears_it(studio: Studio):
    trio = studio.open_example("a", "trio-disco", MODEL)
    assert (trio["title"], trio["length"], trio["chosen"], trio["undo"]) == ("Disco trio", 16, 4, 0)
    assert [track["name"] for track in trio["tracks"]] == ["Bass", "Drums", "Other"]
    assert trio["count"] == trio["notes"].count(";") > 1000
    piano = studio.look("a", PIANO)
    assert [track["name"] for track in piano["tracks"]] == ["Piano"]
    assert piano["chords"]
    assert studio.look("a", PIANO)["midi"] == piano["midi"]  # heard once


def test_views_grow_and_the_last_has_all_there_is(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    views = continued(studio, "a", bars=2, variations=2, seed=4)
    assert [view["state"] for view in views[:-1]] == ["running"] * (len(views) - 1)
    sizes = [view["takes"][0]["count"] for view in views]
    assert sizes == sorted(sizes)
    assert views[0]["takes"][0]["new"] == 0
    last = views[-1]
    assert last["state"] == "done"
    for take in last["takes"]:
        assert (take["promptBars"], take["bars"], take["seed"]) == (2, 4, 4)
        tune = studio.sessions.tune(take["midi"].removeprefix("music/").removesuffix(".mid"))
        assert tune
        assert len(read_midi(tune.midi).notes) == take["count"]
        assert len(read_midi(tune.part or b"").notes) == take["new"]
        assert b'"seed": 4' in tune.midi
        assert take["similarity"]


def test_one_goes_on_from_a_result_and_back(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    continued(studio, "a", bars=2)
    further = studio.go_on_from("a", 0, 2, MODEL)
    assert (further["title"], further["undo"]) == ("Jazz trio, variation 1", 1)
    assert further["chosen"] == further["length"] == 4
    continued(studio, "a", prompt=4)
    assert studio.go_on_from("a", 0, 4, MODEL)["title"] == "Jazz trio, variation 1.1"
    assert studio.undo("a", MODEL)["title"] == "Jazz trio, variation 1"
    back = studio.undo("a", MODEL)
    assert (back["title"], back["chosen"], back["undo"]) == ("Jazz trio", 2, 0)
    with pytest.raises(ValueError, match="nothing to undo"):
        studio.undo("a", MODEL)
    with pytest.raises(ValueError, match="no longer there"):
        studio.go_on_from("a", 0, 4, MODEL)


def test_a_piece_is_begun_from_nothing(studio: Studio):
    shown = studio.open_example("a", NOTHING, MODEL)
    assert (shown["length"], shown["count"]) == (0, 0)
    last = continued(studio, "a", prompt=1)[-1]
    assert last["takes"][0]["promptBars"] == 0
    assert not last["takes"][0]["continues"]


def test_stop_keeps_what_there_is_and_a_second_request_is_refused(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    music = studio.go_on(Asker(name="a", client=""), MODEL, 2, Wish(bars=100))
    next(music)
    grown = next(music)
    with pytest.raises(ValueError, match="still at work"):
        next(studio.go_on(Asker(name="a", client=""), MODEL, 2, Wish(bars=1)))
    studio.stop("a")
    last = list(music)[-1]
    assert last["state"] == "stopped"
    assert last["takes"][0]["count"] >= grown["takes"][0]["count"] > 0
    assert continued(studio, "a")[-1]["state"] == "done"


def test_who_leaves_stops_what_runs_for_them(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    music = studio.go_on(Asker(name="a", client=""), MODEL, 2, Wish(bars=100))
    next(music)
    studio.sessions.leave("a")
    assert list(music)[-1]["state"] == "stopped"
    with pytest.raises(ValueError, match="open your piece again"):
        studio.look("a", MODEL)


def test_a_refused_file_leaves_the_piece_before_in_place(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    with pytest.raises(MidiError, match="holiday"):
        studio.open_file("a", "../../holiday.mid", b"\xff\xd8 a photograph", MODEL)
    assert studio.look("a", MODEL)["title"] == "Jazz trio"


def test_visitors_do_not_see_each_other(studio: Studio):
    studio.open_file("a", "mine.mid", example("trio-jazz"), MODEL)
    studio.open_example("b", "trio-disco", MODEL)
    assert studio.look("a", MODEL)["title"] == "mine"
    assert studio.look("b", MODEL)["title"] == "Disco trio"
    folders = {studio.sessions.of(name).folder for name in "ab"}
    assert len(folders) == 2
    studio.sessions.leave("a")
    assert sum(folder.exists() for folder in folders) == 1


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"bars": 129}, "129 bars were asked for; 1 to 128"),
        ({"bars": 0}, "0 bars"),
        ({"bars": 4, "variations": 9}, "9 variations"),
    ],
)
def test_too_much_is_refused(studio: Studio, wish: dict, sentence: str):
    studio.open_example("a", "trio-jazz", MODEL)
    with pytest.raises(ValueError, match=sentence):
        next(studio.go_on(Asker(name="a", client=""), MODEL, 2, Wish(**wish)))


def test_unknown_names_are_refused(studio: Studio):
    with pytest.raises(ValueError, match="no example"):
        studio.open_example("a", "../../etc/passwd", MODEL)
    with pytest.raises(ValueError, match="no model 'gpt' here"):
        studio.open_example("a", "trio-jazz", "gpt")


def test_old_tunes_go_and_their_sound_with_them(studio: Studio):
    studio.open_example("a", "trio-jazz", MODEL)
    session = studio.sessions.of("a")
    first = next(iter(session.tunes.values()))
    first.wav.write_bytes(b"RIFF")
    for _ in range(MOST_TUNES):
        session.keep("more", first.midi)
    assert studio.sessions.tune(first.key) is None
    assert not first.wav.exists()
    assert len(session.tunes) == MOST_TUNES


def test_a_title_is_a_name_without_folders(studio: Studio):
    assert title_of("C:\\music\\my.song.MID") == "my.song"
    assert title_of("/tmp/a/b.mid") == "b"
    assert title_of("\x00\n.mid") == "Your file"
    assert len(title_of("x" * 500)) == 60


def test_an_example_is_heard_by_a_model_of_its_kind(studio: Studio):
    assert studio.model_for("trio-jazz", MODEL) == MODEL
    assert studio.model_for("piano-g-minor", MODEL) == PIANO
    assert studio.model_for("trio-jazz", PIANO) == MODEL
    for other in (NOTHING, "../etc", ""):
        assert studio.model_for(other, PIANO) == PIANO


def test_every_example_opens_in_every_language(studio: Studio):
    for name in EXAMPLES:
        for model in (MODEL, PIANO):
            assert studio.open_example("a", name, model)["length"] == 16
