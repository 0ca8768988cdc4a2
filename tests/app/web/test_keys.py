"""A key that the user or the file states stays stated, whatever is done to the piece."""

import base64

import mido
import pytest
from playwright.sync_api import Page

import musicgen
from app.web.composing.requests import MusicRequest, streamed_takes
from app.web.composing.streamed_takes import files_of
from app.web.offered_models import example
from musicgen.pieces import read_piece
from tests.app.web.browser import MODEL
from tests.app.web.hands import send
from tests.tokenization.notation.scores import bars, note, score
from tests.tools.page.own_files import chords, midi, part
from tokenization.ensemble.tokens import KEY
from tokenization.formats import edit, musicxml, read_file

CHORDS = {"Keys": part(0, 4, chords())}  # in C major
SHOWN_KEY = "musicgen.desk.current.piece.key"
A_MINOR = 21  # 9 semitones above C, and 12 for minor
# What is done on the page; takes are kept.
COMPOSE = """async (what) => {{
  const {{ app, desk }} = musicgen;
  desk.set({{ variations: 1, draw: 1, bars: 2 }});
  await app.composer.start({{ {} }});
  if (desk.takes.length !== 1) throw new Error(app.trouble || "no take");
  app.use(desk.takes[0].id);
}}"""
ACTIONS = {
    "continue": COMPOSE.format('kind: "continue"'),
    "rewrite": COMPOSE.format('kind: "infill", first: 2, last: 3'),
    "add a part": COMPOSE.format('kind: "accompany", parts: ["bass"]'),
    "harmonise": COMPOSE.format('kind: "accompany", parts: ["+nylon guitar"]'),
    "set the tempo": "() => musicgen.app.setTempo(90, 0)",
    "set the metre": "() => musicgen.app.setMetre(3, 4, 0)",
    "cut the end": "() => musicgen.app.bars(musicgen.desk.open.current, 'cut', { first: 0, stop: 4 })",
    "undo": "() => musicgen.app.undo()",
    "redo": "() => musicgen.app.redo()",
}
# The bytes of the piece on the stage as MIDI.
SAVED = "async () => [...await new Response(await musicgen.requests.midi(musicgen.desk.current)).bytes()]"


def stating(key: str) -> bytes:
    signature = mido.MetaMessage("key_signature", key=key)
    return midi(CHORDS, head=[(0, signature)])[0]


def sonata() -> bytes:
    key = "<attributes><key><fifths>4</fifths></key></attributes>"
    return score(bars(*(key * (n == 0) + note("E", 4, 8) for n in range(8))))


ABC = b"X:1\nT:Tune\nM:4/4\nL:1/4\nK:Dm\n" + b"DEFA|dcAG|" * 4
FILES = {  # with the key that they state, or that the user sets
    "chords.mid": (midi(CHORDS)[0], (0, True), True),
    "far.mid": (midi(CHORDS)[0], (-4, True), True),
    "relative.mid": (stating("Am"), (0, False), True),
    "stated.mid": (stating("Gm"), (-2, True), False),
    "sonata.musicxml": (sonata(), (4, False), False),
    "tune.abc": (ABC, (-1, True), False),
    "set.abc": (ABC, (-3, True), True),
}


OFTEN = "relative.mid", "sonata.musicxml", "set.abc"
NAMES = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in FILES]


@pytest.mark.parametrize("name", NAMES)
def test_a_stated_key_stays(page: Page, name: str):
    data, (fifths, minor), is_set = FILES[name]
    send(page, name, data)
    page.wait_for_function("(name) => musicgen.desk.current.fileName === name", arg=name)
    if is_set:
        page.evaluate("(key) => musicgen.app.setKey(...key)", [fifths, minor])
    stated = [fifths, int(minor), 0]
    shown = {"open": page.evaluate(SHOWN_KEY)}
    for action, script in ACTIONS.items():
        page.evaluate(script)
        shown[action] = page.evaluate(SHOWN_KEY)
        kept = read_file(bytes(page.evaluate(SAVED)))
        assert kept.key_signature == (fifths, minor), action
    assert shown == dict.fromkeys(shown, stated)


@pytest.mark.parametrize("act", ["continue", "infill", "accompany"])
@pytest.mark.parametrize("kind", ["midi", "musicxml"])
def test_a_take_states_the_key_of_its_piece_and_is_continued_in_it(act: str, kind: str):
    """Also if it is written from the notes alone; without the key, they would be heard in C major."""
    model, data = musicgen.load(MODEL), example("piano-c-major")
    data = musicxml(read_file(data)) if kind == "musicxml" else data
    data = edit(data, [{"change": "key", "fifths": 0, "minor": True}])
    piece = read_piece(model.language, data, name="a")
    asked = MusicRequest(kind=act, bars=1, first=2, last=3, parts=("bass",) * (act == "accompany"))
    views = streamed_takes(model, piece, asked)
    [begun] = views.begun()["takes"]
    views.work.finish()
    [take] = views.finished("done", 1, files_of)["takes"]
    assert begun["piece"]["key"] == take["piece"]["key"] == [0, 1, 0]
    prompt = read_piece(model.language, base64.b64decode(take["midi"]), name="b").prompt(4)
    assert int(prompt.ids[1]) == KEY.start + A_MINOR
