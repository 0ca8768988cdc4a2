"""Opening the music files of visitors: reading, encoding for a model, and notices on what was changed or left out.

Files are read in separate processes with limits on memory and time: in the server process, a file that takes seconds
would block all visitors for as long.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from app.web.composing.streamed_takes import files_of
from evaluation.metrics.style import ALL, METRICS, profiles, quarters, similarities
from musicgen.continuation import Take
from musicgen.pieces import Piece, in_file, piece_of
from tokenization.analysis.beats import later
from tokenization.analysis.metres import bar_lines
from tokenization.formats import kind_of, midi, notated, read_file
from tokenization.language import Language
from tokenization.language import language as language_of
from tokenization.limits import UPLOAD, MusicFileError
from tokenization.records import from_json
from tokenization.score import Score
from tokenization.wording import Remark
from tokenization.workers import Bounds, Failed, Worker

KEPT = 16  # opened pieces, since a piece is usually continued right after it was opened
LONGEST_TITLE = 60
MADE_HERE = re.compile(rb"musicgen (\{[^\x00-\x1f\x80-\xff]{2,12000}?\})(?=[\x00\xff])")
MOST_READERS = 6  # processes at a time, 60 MB each
SPARED = 2  # of these, reserved for clients that have none running
IDLE = 2  # kept for the next files
# SECURITY.md promises reading within 2 seconds and this memory; writing a long piece as a score takes 6.
BOUNDS = Bounds(seconds=10, memory_bytes=1 << 30)
NICE = 5  # lower priority than composing, since playback must not wait for files
Answer = TypeVar("Answer")
Call = tuple[Callable[..., Any], tuple[Any, ...]]


class FileReader:
    """Reads files of strangers in other processes within limits, and caches the last ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, str], Piece] = OrderedDict()
        self._lock = threading.Lock()
        self.apart = Readers().ask

    def read(self, data: bytes, name: str, client: str = "") -> Score:
        """Return a file as a score; errors refer to it as `name`."""
        return self.apart(client, quoted(name), _read, data, name)

    def as_midi(self, data: bytes, name: str, client: str = "") -> bytes:
        """Return a file as MIDI; MIDI files stay as they are."""
        return data if kind_of(data) == "midi" else midi(self.read(data, name, client))

    def notated(self, data: bytes, name: str, client: str = "", *, exact: bool = False) -> bytes:
        """Return a file as MusicXML, with rhythms as a player reads them unless `exact`; MusicXML stays as it is."""
        return self.apart(client, quoted(name), _notated, data, name, exact)

    def files(self, take: Take, language: Language, client: str = "") -> dict[str, Any]:
        """Return the files of a take; without edits of the opened file if that takes too long."""
        if take.edit is None:
            return files_of(take, language)
        try:
            return self.apart(client, "it", _files, take, language.name)
        except MusicFileError:
            plain = files_of(replace(take, edit=None), language)
            said = "Written from the notes alone, not into your file: that takes too long."
            return {**plain, "notKept": said}

    def open(self, data: bytes, name: str, language: Language, client: str = "") -> Piece:
        """Return a file as a piece in a language."""
        key = hashlib.sha256(data).digest(), language.name
        with self._lock:
            piece = self._kept.pop(key, None)
        if piece is None:
            piece = self.apart(client, quoted(name), _opened, data, name, language.name)
            piece = replace(piece, language=language, original=data)
        with self._lock:
            self._kept[key] = piece
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return replace(piece, name=title_of(name))


def with_leading_rest(piece: Piece, bars: int) -> Piece:
    """Return a piece with bars of rest inserted before it.

    Reading a file drops leading rests, but an edited piece on the page may have them, and requests count its bars.
    """
    ticks = bars * int(bar_lines(piece.score, 1)[1])
    meters = piece.score.meters
    meters = meters.replace(onset_ticks=np.append(0, meters.onset_ticks[1:] + ticks))
    moved = later(piece.score, ticks).replace(meters=meters)
    encoded = piece.language.encode(moved)
    score = in_file(piece.language.decode(encoded.ids, encoded.setting), moved)
    return replace(piece, encoded=encoded, score=score)


def _read(data: bytes, name: str) -> Score:
    return read_file(data, limits=UPLOAD, name=quoted(name), suffix=Path(name).suffix)


def _opened(data: bytes, name: str, spoken: str) -> Piece:
    return piece_of(_language(spoken), _read(data, name), quoted(name))


def _files(take: Take, spoken: str) -> dict[str, Any]:
    return files_of(take, _language(spoken))


_language = cache(language_of)  # building one computes its tables


def _notated(data: bytes, name: str, exact: bool) -> bytes:
    score, suffix = _read(data, name), Path(name).suffix
    return notated(data, score, title_of(name), suffix=suffix, exact=exact)


def quoted(name: str) -> str:
    """Return a file name in quotation marks, shortened, for messages."""
    short = name if len(name) <= LONGEST_TITLE else f"{name[: LONGEST_TITLE - 1]}…"
    return f"“{short}”"


def title_of(name: str) -> str:
    """Return a file name without folders, suffix and unprintable characters, as a title."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    title = "".join(c for c in stem if c.isprintable()).strip()
    if len(title) > LONGEST_TITLE:
        title = f"{title[: LONGEST_TITLE - 1].rstrip()}…"
    return title or "Your file"


def notices(piece: Piece) -> list[str]:
    """Return notices on what was changed or left out, to be shown above the roll."""
    # Plain strings are details, which are shown in the fold below the roll.
    return [remark for remark in piece.remarks if isinstance(remark, Remark)]


def likeness(reference: Score, output: Score) -> list[dict[str, Any]]:
    """Return the similarity of an output to a reference by quarters, one row per metric.

    A value is None if the quarter or the reference has nothing to compare.
    """
    if not len(reference.notes):
        return []
    style = profiles(reference, ALL)
    found = [similarities(style, profiles(part, ALL)) for part in quarters(output)]
    rows = [
        {"metric": METRICS[metric], "quarters": [part[metric] for part in found]}
        for metric in style
    ]
    return [row for row in rows if any(value is not None for value in row["quarters"])]


def made_here(data: bytes) -> dict[str, Any] | None:
    """Return the provenance stored in a file that was written here."""
    found = MADE_HERE.search(data[: 1 << 14])
    try:
        provenance = from_json(found[1], "it") if found else None
    except ValueError:
        return None
    return provenance if isinstance(provenance, dict) else None


class Readers:
    """A pool of processes for reading, started as needed and ended when late."""

    def __init__(self) -> None:
        self._idle: list[Worker[Call, Any]] = []
        self._busy: Counter[str] = Counter()  # running calls by client
        self._changed = threading.Condition()

    def ask(self, client: str, name: str, function: Callable[..., Answer], *values: Any) -> Answer:
        """Call a function of plain data in another process; error messages refer to the file by `name`."""
        with self._lent(client) as reader:
            answer = reader.ask((function, values))
        if isinstance(answer, Failed):
            if answer.is_fault:
                raise RuntimeError(answer.reason)
            raise MusicFileError(f"{name} cannot be read: {answer.reason}; use an excerpt")
        if isinstance(answer, MusicFileError):
            raise answer
        return answer

    @contextmanager
    def _lent(self, client: str) -> Iterator[Worker[Call, Any]]:
        """Lend a process to a client, waiting until one is free."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._busy.total() < MOST_READERS - (SPARED if self._busy[client] else 0)
            )
            self._busy[client] += 1
            reader = self._idle.pop() if self._idle else None
        try:
            reader = reader or Worker(_called, BOUNDS, threads=None)
            try:
                yield reader
            except BaseException:  # its call has not returned
                reader.stop()
                raise
            if len(self._idle) < IDLE:
                self._idle.append(reader)
            else:
                reader.stop()
        finally:
            with self._changed:
                self._busy -= Counter([client])  # drops clients without any
                self._changed.notify_all()


def _called(call: Call) -> Any:
    """Return the result of a call; return rather than raise a ValueError, so that its message is kept."""
    function, values = call
    if hasattr(os, "nice"):
        os.nice(max(0, NICE - os.nice(0)))
    try:
        return function(*values)
    except ValueError as error:
        return MusicFileError(str(error))
