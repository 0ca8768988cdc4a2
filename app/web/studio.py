"""What a visitor of the page can do: open a piece, choose, continue it, go on from a result, go back.

No gradio here: actions take plain values and return what the page shows as plain data.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from app.service import (
    Continuation,
    Piece,
    Take,
    Wish,
    midi_of,
    no_prompt,
    read_piece,
)
from app.web.picture import picture
from app.web.server.doorman import Asker
from app.web.server.sessions import Session, Sessions, Source, Tune
from app.web.server.turns import Turns
from app.web.shelf import Shelf
from app.web.views import addresses, finished, growing
from tokenization.midi import write_midi
from tokenization.midi_limits import UPLOAD

EXAMPLES = {
    "piano-c-major": "Piano in C",
    "piano-c-sharp-minor": "Piano in C♯ minor",
    "piano-g-minor": "Piano in G minor",
    "trio-disco": "Disco trio",
    "trio-jazz": "Jazz trio",
    "trio-trance": "Trance trio",
}
EXAMPLE_LANGUAGES = {"piano": "remi", "trio": "groove"}  # by the first part of an example's name
NOTHING = "nothing"  # the example that is no piece
PROMPT_BARS = {"remi": 8, "groove": 4}  # to begin with
MOST_BARS = 128
MOST_VARIATIONS = 8
LONGEST_SECONDS = 600  # of work on one request
PAUSE_SECONDS = 0.2  # between two views of the music as it grows
LONGEST_TITLE = 60
VARIATION = re.compile(r"[vV]ariation [\d.]+$")


class Studio:
    """The actions, over the models and the visitors."""

    def __init__(self, shelf: Shelf, sessions: Sessions) -> None:
        self.shelf, self.sessions = shelf, sessions
        self.turns = Turns()

    def model_for(self, name: str, model: str) -> str:
        """Return the model to hear an example by: the chosen one if the example is of its kind, else one that is."""
        spoken = language_of_example(name)
        known = {each: language.family for each, language in self.shelf.languages.items()}
        fitting = [each for each, language in known.items() if language == spoken]
        return model if model in fitting or not fitting else fitting[0]

    def first_example(self, model: str) -> str:
        """Return the example to begin with: one of the model's kind."""
        spoken = self.shelf.language(model).family
        return next(name for name in EXAMPLES if language_of_example(name) == spoken)

    def open_example(self, visitor: str, name: str, model: str) -> dict[str, Any]:
        """Take one of the examples, or nothing at all, as the piece to continue."""
        if name == NOTHING:
            source = Source(title="From nothing", midi=None)
        elif name in EXAMPLES:
            source = Source(title=EXAMPLES[name], midi=example(name))
        else:
            raise ValueError(f"there is no example {name[:40]!r}; there are {', '.join(EXAMPLES)}")
        return self._open(visitor, source, model)

    def open_file(self, visitor: str, name: str, data: bytes, model: str) -> dict[str, Any]:
        """Take a file's bytes; its name is only shown."""
        return self._open(visitor, Source(title=title_of(name), midi=data), model)

    def look(self, visitor: str, model: str) -> dict[str, Any]:
        """Return what is on the page, as this model hears it."""
        return self._stage(self.sessions.of(visitor), model)

    def stop(self, visitor: str) -> None:
        """End the visitor's request; what there is stays."""
        self.sessions.of(visitor).stop.set()

    def go_on_from(
        self, visitor: str, number: int, prompt_bars: int | None, model: str
    ) -> dict[str, Any]:
        """Make a result the new piece; `prompt_bars` is what to go back to."""
        session = self.sessions.of(visitor)
        if not 0 <= number < len(session.takes):
            raise ValueError("this variation is no longer there; press Continue again")
        take, now = session.takes[number], _at_work(session)
        session.sources[-1] = Source(title=now.title, midi=now.midi, prompt_bars=prompt_bars)
        session.begin(Source(title=take.title, midi=take.midi), after=True)
        return self._stage(session, model, everything=True)

    def undo(self, visitor: str, model: str) -> dict[str, Any]:
        """Go back to the piece before."""
        session = self.sessions.of(visitor)
        if len(session.sources) < 2:
            raise ValueError("there is nothing to undo: this is the piece you began with")
        session.sources.pop()
        session.heard, session.takes = None, []
        return self._stage(session, model)

    def go_on(
        self, asker: Asker, model: str, prompt_bars: int | None, wish: Wish
    ) -> Iterator[dict[str, Any]]:
        """Continue the piece; yields the variations as they grow, and at last with all there is to them."""
        check(wish)
        session = self.sessions.of(asker.name)
        if not session.busy.acquire(blocking=False):
            raise ValueError("your last request is still at work; press Stop, or wait for its end")
        try:
            session.stop = stop = threading.Event()
            source = _at_work(session)
            prompt = (
                no_prompt(self.shelf.load(model))
                if source.midi is None
                else self._heard(session, model)[2].prompt(prompt_bars)
            )
            work = Continuation(self.shelf.load(model), prompt, wish)
            yield from self._play(session, source, work, stop, asker)
        finally:
            session.busy.release()

    def _play(
        self,
        session: Session,
        source: Source,
        work: Continuation,
        stop: threading.Event,
        asker: Asker,
    ) -> Iterator[dict[str, Any]]:
        run, begun = secrets.token_hex(4), time.monotonic()
        yield growing(run, work)
        late = begun + LONGEST_SECONDS
        due = begun
        playing = work.run(lambda: stop.is_set() or time.monotonic() > late or asker.is_gone(begun))
        for _ in self.turns.taken(playing, asker.client):
            if (now := time.monotonic()) >= due:
                view = growing(run, work)
                spent = time.monotonic() - now
                if due > begun or any(take["new"] for take in view["takes"]):  # the first at once
                    yield view
                    due = time.monotonic() + max(
                        PAUSE_SECONDS, 4 * spent, 0.1 * self.turns.ahead(asker.client)
                    )
        seconds = time.monotonic() - begun
        takes = work.takes()
        session.takes = [_kept(session, source, take) for take in takes]
        state = "stopped" if stop.is_set() else "late" if time.monotonic() > late else "done"
        kept = list(zip(takes, session.takes, strict=True))
        yield finished(run, work, kept, state=state, seconds=seconds)

    def _open(self, visitor: str, source: Source, model: str) -> dict[str, Any]:
        session = self.sessions.of(visitor)
        session.stop.set()
        if source.midi is not None:  # refused, it leaves the piece before where it is
            heard = hear(source, self.shelf, model)
            session.begin(source)
            self._keep_heard(session, source, heard)
        else:
            session.begin(source)
        return self._stage(session, model)

    def _keep_heard(self, session: Session, source: Source, piece: Piece) -> None:
        tune = session.keep(source.title, write_midi(piece.score))
        session.heard = (source, piece.language.name, piece, tune)

    def _heard(self, session: Session, model: str) -> tuple[Source, str, Piece, Tune]:
        """Return the piece at work as a model hears it, read again only for another language."""
        source = _at_work(session)
        heard = session.heard
        if heard is None or heard[:2] != (source, self.shelf.language(model).name):
            self._keep_heard(session, source, hear(source, self.shelf, model))
        assert session.heard is not None, "it has just been kept"
        return session.heard

    def _stage(self, session: Session, model: str, *, everything: bool = False) -> dict[str, Any]:
        source, language = _at_work(session), self.shelf.language(model)
        shown = {"title": source.title, "undo": len(session.sources) - 1, "language": language.name}
        if source.midi is None:
            score = language.decode(_beginning(language))
            return {**shown, **picture(score, bars=16), "length": 0, "chosen": 0, "remarks": []}
        _, _, piece, tune = self._heard(session, model)
        chosen = (
            piece.bars if everything else source.prompt_bars or PROMPT_BARS.get(language.family, 8)
        )
        return {
            **shown,
            **picture(piece.score, bars=piece.bars),
            **addresses(tune),
            "length": piece.bars,
            "chosen": min(chosen, piece.bars),
            "remarks": list(piece.remarks),
        }


def hear(source: Source, shelf: Shelf, model: str) -> Piece:
    """Read a piece as a model hears it, within the limits for files of strangers."""
    assert source.midi is not None, "only a piece can be heard"
    return read_piece(shelf.language(model), source.midi, name=source.title, limits=UPLOAD)


def language_of_example(name: str) -> str:
    """Return the language that an example is of; nothing, of what is no piece."""
    return EXAMPLE_LANGUAGES.get(name.partition("-")[0], "")


def example(name: str) -> bytes:
    """Return the file of an example."""
    return (Path(str(files("app") / "examples")) / f"{name}.mid").read_bytes()


def title_of(name: str) -> str:
    """Return a file's name without folders, ending and what is not print."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    title = "".join(c for c in stem if c.isprintable()).strip()
    if len(title) > LONGEST_TITLE:
        title = f"{title[: LONGEST_TITLE - 1].rstrip()}…"
    return title or "Your file"


def check(wish: Wish) -> None:
    """Refuse what would keep the machine too long from others."""
    if not 1 <= wish.bars <= MOST_BARS:
        raise ValueError(f"{wish.bars} bars were asked for; 1 to {MOST_BARS} can be had at a time")
    if not 1 <= wish.variations <= MOST_VARIATIONS:
        raise ValueError(
            f"{wish.variations} variations were asked for; 1 to {MOST_VARIATIONS} can be had"
        )


def _at_work(session: Session) -> Source:
    if not session.sources:
        raise ValueError("the page was left for long and its files are gone; open your piece again")
    return session.sources[-1]


def _beginning(language: Any) -> Any:
    import numpy as np

    return np.array([language.begin])


def _kept(session: Session, source: Source, take: Take) -> Tune:
    number = take.number + 1
    if source.midi is None:
        title = f"Variation {number}"
    elif VARIATION.search(source.title):  # of a variation
        title = f"{source.title}.{number}"
    else:
        title = f"{source.title}, variation {number}"
    midi, new = midi_of(take.whole, take.provenance), take.continuation
    return session.keep(title, midi, midi_of(new, take.provenance) if len(new.notes) else None)
