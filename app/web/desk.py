"""The requests of the page's scripts, whoever answers them: each is an action with a JSON object and an optional file.

The server sends the answers (launch.py); a page without one has them from the same code in the browser. A new request
is a method here, its name in ACTIONS, and a method in app/assets/page/requests.js.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from app.web.actions import PageActions
from app.web.composing.checks import whole
from app.web.composing.requests import MOST_VARIATIONS, MusicRequest, request_from
from app.web.composing.streamed_takes import as_text
from tokenization.analysis.chords import parse, read_chords, symbol_of, taken_as

ACTIONS = (
    "open", "ahead", "write", "stop", "settle", "save", "sound", "score", "chords",
)  # requests by name  # fmt: skip
NOT_KEPT = 409  # the status of NotKept: the page sends its own notes instead (page/requests.js)
SCORE = "application/vnd.recordare.musicxml+xml"
MIDI = "audio/midi"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request: what is wanted, the content of a file and its name, and who asks."""

    plain: Mapping[str, Any]
    data: bytes = b""
    name: str = ""
    client: str = ""

    def text(self, name: str) -> str:
        """Return a value as text; empty if it is missing."""
        return str(self.plain.get(name) or "")

    def music(self) -> MusicRequest:
        """Return the request for music."""
        return request_from(self.plain)

    def title(self, wanted: MusicRequest) -> str:
        """Return the current title of the piece with the suffix of its file, by which ABC is recognised."""
        return f"{wanted.title or 'Your file'}{Path(self.name).suffix or '.'}"


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as an answer."""

    data: bytes
    kind: str  # its media type


Answer: TypeAlias = "dict[str, Any] | File | Iterator[dict[str, Any]] | None"
"""Plain data, a file, views that follow each other, or nothing."""


class Desk:
    """The actions by the names of requests."""

    def __init__(self, actions: PageActions) -> None:
        self.actions = actions

    def given(self, asked: Asked) -> bytes:
        """Return the file that a request brings along, with the user's edits (tokenization/changes.py)."""
        edits, made = asked.plain.get("edits"), asked.plain.get("made")
        if not asked.data or edits is None:
            return asked.data
        return self.actions.reader.changed(asked.data, asked.name, edits, made, asked.client)

    def open(self, asked: Asked) -> Answer:
        """Open a file or an example; an edited file is returned, too."""
        model, data = asked.text("model"), self.given(asked)
        if data or asked.name:  # a file can be empty, which is then said
            opened = self.actions.open(data, asked.name or "it", model, asked.client)
            return opened if data is asked.data else {**opened, "file": as_text(data)}
        return self.actions.open_example(asked.text("example"), model)

    def write(self, asked: Asked) -> Answer:
        """Write music; each view is one step of the takes."""
        wanted = asked.music()
        title, job, kept = asked.title(wanted), asked.text("job"), asked.plain.get("kept")
        data, reader = self.given(asked) or None, self.actions.reader
        edits = asked.plain.get("edits")
        target = kept and reader.target(asked.data, kept, edits, asked.client)
        return self.actions.write(asked.client, wanted, data, title, job, target)

    def ahead(self, asked: Asked) -> Answer:
        """Read the prompt of an expected request ahead."""
        wanted = asked.music()
        self.actions.read_ahead(asked.client, wanted, self.given(asked), asked.title(wanted))

    def stop(self, asked: Asked) -> Answer:
        """Stop a request; the notes so far are kept."""
        self.actions.stop(asked.text("job"))

    def settle(self, asked: Asked) -> Answer:
        """Keep a take of a request as it is shown."""
        self.actions.settle(
            asked.text("job"), whole(0, MOST_VARIATIONS - 1)(asked.plain.get("take"))
        )

    def chords(self, asked: Asked) -> Answer:
        """Read a typed progression: of each bar, the chords as models know them, with their symbols."""
        line = read_chords(asked.text("text"), whole()(asked.plain.get("bar", 1)))
        bars = [[(parse(name), symbol_of(name)) for name in bar] for bar in line]
        return {"bars": bars, "said": taken_as(line)}

    def save(self, asked: Asked) -> Answer:
        """Return a file with the user's edits as MIDI."""
        return File(data=self.midi(asked), kind=MIDI)

    def score(self, asked: Asked) -> Answer:
        """Convert a music file to MusicXML; MusicXML stays as it is."""
        exact = asked.plain.get("exact") is True
        written = self.actions.reader.notated(
            self.given(asked), asked.name, asked.client, exact=exact
        )
        return File(data=written, kind=SCORE)

    def sound(self, asked: Asked) -> Answer:
        """Return a music file as MIDI, which the server or the browser renders."""
        return File(data=self.midi(asked), kind=MIDI)

    def midi(self, asked: Asked) -> bytes:
        """Return a music file as MIDI; MIDI files stay as they are."""
        data, made = self.given(asked), asked.plain.get("made")
        return self.actions.reader.as_midi(data, asked.name, asked.client, made)
