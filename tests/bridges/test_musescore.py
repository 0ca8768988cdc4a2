"""The plugin in MuseScore 3 itself, on a display of its own, by its keys; the saved scores are compared."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.commands.bridge import BRIDGES, folder_of, script
from tests.app.web.browser import started
from tests.tokenization.notation.scores import bars, note, score

pytestmark = pytest.mark.long
PATIENCE = 120  # seconds, on a busy machine
TRIPLET = "<time-modification><actual-notes>3</actual-notes><normal-notes>2</normal-notes></time-modification>"
SETTINGS = """\
[application]
startup\\firstStart=false
startup\\sessionStart=1
startup\\showSplashScreen=false
startup\\showStartCenter=false
startup\\showTours=false
telemetry\\allowed=false
[ui]
application\\startup\\showTours=false
"""
PLUGINS = """\
<?xml version="1.0" encoding="UTF-8"?>
<museScore version="3.01"><Plugin><path>{path}</path><load>1</load></Plugin></museScore>
"""


def measures(path: Path) -> list[list[str]]:
    """Return the bars of each staff of a saved score, without blanks."""
    (found,) = ElementTree.parse(path).getroot().findall("Score")
    return [
        [
            re.sub(rb"\s", b"", ElementTree.tostring(bar)).decode()
            for bar in staff.findall("Measure")
        ]
        for staff in found.findall("Staff")
    ]


def changed(before: list[list[str]], after: list[list[str]]) -> dict[int, list[int]]:
    """Return the bars, from 1, that differ or are new, by staff."""
    found = {
        number: [n for n in range(len(new)) if old[n : n + 1] != new[n : n + 1]]
        for number, (old, new) in enumerate(zip(before, after, strict=True))
    }
    return {number: [n + 1 for n in some] for number, some in found.items() if some}


class Hands:
    """A user at the keyboard."""

    def __init__(self, around: dict[str, str], path: Path) -> None:
        self.around, self.path = around, path

    def did(self, *words: str) -> str:
        done = subprocess.run(["xdotool", *words], env=self.around, capture_output=True, text=True)
        return done.stdout.strip()

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.did("key", key)
            time.sleep(0.3)

    def turn_to(self, name: str) -> None:
        """Wait for a window, and give it the keyboard."""
        late = time.monotonic() + PATIENCE
        while not (found := self.did("search", "--name", name).split()):
            assert time.monotonic() < late, f"there is no window {name}"
            time.sleep(0.3)
        self.did("windowfocus", "--sync", found[0])
        time.sleep(0.5)

    def select(self, first: int, count: int) -> None:
        """Select bars of the first staff."""
        self.turn_to("^MuseScore 3: ")
        self.keys("Escape", "ctrl+Home", "Right", *["ctrl+Right"] * (first - 1))
        self.keys(*["ctrl+shift+Right"] * count)

    def ask(self, action: int) -> None:
        """Open the plugin, and choose an action."""
        self.keys("alt+p", "Up", "Return")
        self.turn_to("^musicgen$")
        self.keys(str(action))

    def saved(self) -> list[list[str]]:
        self.turn_to("^MuseScore 3: ")
        self.keys("ctrl+s")
        time.sleep(1)
        return measures(self.path)

    def saved_when(self, is_right: Callable[[list[list[str]]], bool]) -> list[list[str]]:
        """Save now and then until the score is as wanted."""
        late = time.monotonic() + PATIENCE
        while not is_right(found := self.saved()):
            assert time.monotonic() < late, "the score has not changed"
        return found


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    """MuseScore with a score of two parts, of which the second is empty."""
    program = shutil.which("mscore3")
    if program is None or not (shutil.which("Xvfb") and shutil.which("xdotool")):
        pytest.skip("there is no MuseScore 3, Xvfb or xdotool")
    monkeypatch.setenv("HOME", str(tmp_path))
    plugin = folder_of(BRIDGES["musescore"]) / BRIDGES["musescore"].file
    own = tmp_path / ".local/share/MuseScore/MuseScore3/plugins.xml"
    settings = tmp_path / ".config/MuseScore/MuseScore3.ini"
    for path, text in (
        (plugin, script(plugin.name)),
        (own, PLUGINS.format(path=plugin)),
        (settings, SETTINGS),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    quarters = [note(step, 4, 3) for step in "CEGE"]
    triplets = [note(step, 4, 2, inside=TRIPLET) for step in "CEGCEGCEGCEG"]
    played = ["".join(triplets if n == 5 else quarters) for n in range(8)]
    silent = ["<note><rest measure='yes'/><duration>12</duration></note>"] * 8
    (tmp_path / "song.musicxml").write_bytes(
        score(bars(*played, divisions=3), bars(*silent, divisions=3)).replace(b"part 2", b"Flute")
    )
    song, around = tmp_path / "song.mscx", {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    made = [program, "-o", song, tmp_path / "song.musicxml"]
    subprocess.run(made, env=around, check=True, capture_output=True)
    read, write = os.pipe()
    screen = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        started(HOME=str(tmp_path)),  # with the trained model: others may be silent
        subprocess.Popen(screen, pass_fds=[write], **quiet) as shown,
    ):
        around = {**os.environ, "DISPLAY": f":{os.read(read, 9).decode().strip()}"}
        with subprocess.Popen([program, song], env=around, **quiet) as running:
            try:
                found = Hands(around, song)
                found.turn_to("^MuseScore 3: ")
                time.sleep(3)
                yield found
            finally:
                running.kill()
                shown.kill()


@pytest.mark.parametrize(
    ("action", "first", "wanted", "undo"),
    [
        (1, 3, {0: [3, 4]}, 1),
        (1, 6, {0: [6, 7]}, 2),  # the bar begins with a triplet
        (2, 3, {1: [3, 4]}, 1),
        (3, 7, {0: [9, 10], 1: [9, 10]}, 1),
    ],
    ids=["fill", "fill a triplet", "a part below", "continue"],
)
def test_only_the_place_that_was_asked_for_changes(hands: Hands, action, first, wanted, undo):
    before = hands.saved()
    hands.select(first, 2)
    hands.ask(action)
    after = hands.saved_when(lambda found: found != before)
    found = changed(before, after)
    assert {*found} <= {*wanted}
    assert all({*some} <= {*wanted[staff]} for staff, some in found.items())
    hands.keys(*["ctrl+z"] * undo)
    assert hands.saved() == before


def test_nothing_is_written_without_a_selection(hands: Hands):
    before = hands.saved()
    hands.keys("Escape", "Escape")
    hands.ask(1)
    time.sleep(4)
    assert hands.saved() == before
