"""MuseScore 3 itself, on a display of its own, and a user at its keyboard."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.commands.bridge import BRIDGES, folder_of, program, script
from tests.app.web.browser import Server

PATIENCE = 120  # seconds, on a busy machine
SEED, ANY_SEED = 7, "Math.floor(Math.random() * 1e9)"
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


def convert(source: Path, path: Path) -> None:
    """Write a score of MuseScore in another format."""
    around = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run(["mscore3", "-o", path, source], env=around, check=True, capture_output=True)


class Hands:
    """A user at the keyboard."""

    def __init__(self, around: dict[str, str], path: Path, server: Server | None) -> None:
        self.around, self.path, self.server = around, path, server

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


@contextmanager
def running(
    home: Path, source: bytes, server: Server | None, *, starts: str = ""
) -> Iterator[Hands]:
    """Open a score in MuseScore, whose plugin asks with the same seed each time; HOME must be the folder.

    `starts` is what the plugin starts without a server, by default this program.
    """
    found = shutil.which("mscore3")
    if found is None or not (shutil.which("Xvfb") and shutil.which("xdotool")):
        pytest.skip("there is no MuseScore 3, Xvfb or xdotool")
    plugin = folder_of(BRIDGES["musescore"]) / BRIDGES["musescore"].file
    own = home / ".local/share/MuseScore/MuseScore3/plugins.xml"
    settings = home / ".config/MuseScore/MuseScore3.ini"
    text = script(plugin.name).replace(ANY_SEED, str(SEED)).replace(program(), starts or program())
    for path, wanted in (
        (plugin, text),
        (own, PLUGINS.format(path=plugin)),
        (settings, SETTINGS),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted)
    given, path = home / "song.musicxml", home / "song.mscx"
    given.write_bytes(source)
    convert(given, path)
    read, write = os.pipe()
    screen = ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(screen, pass_fds=[write], **quiet) as shown:
        around = {**os.environ, "DISPLAY": f":{os.read(read, 9).decode().strip()}"}
        with subprocess.Popen([found, path], env=around, **quiet) as opened:
            try:
                hands = Hands(around, path, server)
                hands.turn_to("^MuseScore 3: ")
                time.sleep(3)
                yield hands
            finally:
                opened.kill()
                shown.kill()
