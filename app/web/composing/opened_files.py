"""Opening the music files of visitors: reading, encoding for a model, and notices on what was changed or left out."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from app.web.composing.plain_piece import is_plain, reading_of_written, score_of
from app.web.composing.streamed_takes import decoded, files_of, reading_data
from musicgen.continuation import Take
from musicgen.pieces import Piece, in_file, piece_of
from tokenization.analysis.beats import interpolate, later
from tokenization.analysis.metres import bar_lines
from tokenization.changes import Reading, edits_from
from tokenization.edit import NotKept
from tokenization.formats import changed, changed_as_read, kind_of, midi, notated, read_file
from tokenization.language import Language
from tokenization.language import language as language_of
from tokenization.limits import UPLOAD, MusicFileError
from tokenization.records import from_json, from_plain
from tokenization.score import FileTimes, Score
from tokenization.wording import Remark

LEAST_BEATS = 1e-3  # between known times of a file
KEPT = 16  # opened pieces, since a piece is usually continued right after it was opened
LONGEST_TITLE = 60
# Titles of new scores in notation programs, and of new pieces here.
NO_TITLE = re.compile(r"(?:title|untitled(?: score)?|take [\d.]+)?", re.IGNORECASE)
NOT_HELD = "your file cannot hold the edits"
MADE_HERE = re.compile(rb"musicgen (\{[^\x00-\x1f\x80-\xff]{2,12000}?\})(?=[\x00\xff])")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The file that a take was written into, as the page sends it if its model reads another (`files_of`)."""

    file: str
    reading: Reading
    read: Reading  # of the file that the model reads


@dataclass(frozen=True, kw_only=True)
class Target:
    """A file to write into, and how the piece reads it and the file that the model reads."""

    data: bytes
    reading: Reading
    read: Reading

    def of(self, piece: Piece) -> Piece:
        """Return a piece whose new music is written into this file."""
        score, read, there = piece.score, self.read, self.reading
        beats, ticks = score.file_times.columns
        # Beats of the score are ticks of its file, these are ticks of the page, and those are ticks of this file.
        known = [beats, *(interpolate(np.array(at), ticks, beats) for at in (
            read.file_ticks, read.in_file(np.array(there.beats) * there.ticks_per_beat)
        ))]  # fmt: skip
        at = np.unique(np.concatenate(known))
        at = at[np.append(True, np.diff(at) > LEAST_BEATS)]
        times = FileTimes(at, there.in_file(read.heard(interpolate(at, beats, ticks))))
        tracks = [
            replace(track, sources=tuple(sorted({
                source for own, some in zip(read.sources, there.sources, strict=False)
                if {*own} & {*track.sources} for source in some
            })))
            for track in score.tracks
        ]  # fmt: skip
        score = score.replace(file_times=times, tracks=tuple(tracks))
        return replace(piece, score=score, original=self.data)


class Apart(Protocol):
    """Calls a function of plain data, apart from other work; error messages refer to the file by `name`."""

    def __call__(
        self, client: str, name: str, function: Callable[..., Answer], /, *values: Any
    ) -> Answer:
        """Return what the function returns; a MusicFileError says what is wrong with a file."""
        ...


class FileReader:
    """Reads files of strangers, and caches the last ones."""

    def __init__(self, apart: Apart) -> None:
        self._kept: OrderedDict[tuple[bytes, str], Piece] = OrderedDict()
        self._lock = threading.Lock()
        self.apart = apart

    def read(self, data: bytes, name: str, client: str = "") -> Score:
        """Return a file as a score; errors refer to it as `name`."""
        return self.apart(client, quoted(name), _read, data, name)

    def as_midi(self, data: bytes, name: str, client: str = "", provenance: Any = None) -> bytes:
        """Return a file as MIDI, with a provenance; MIDI files stay as they are."""
        if kind_of(data) == "midi" and Path(name).suffix.lower() != ".abc":
            return data
        made = provenance if isinstance(provenance, dict) else None
        return midi(self.read(data, name, client), provenance=made)

    def notated(self, data: bytes, name: str, client: str = "", *, exact: bool = False) -> bytes:
        """Return a file as MusicXML, with rhythms as a player reads them unless `exact`; MusicXML stays as it is."""
        return self.apart(client, quoted(name), _notated, data, name, exact)

    def changed(
        self, data: bytes, name: str, edits: Any, provenance: Any, client: str = ""
    ) -> bytes:
        """Return a file with the edits of the page; raises NotKept if it cannot hold them."""
        made = provenance if isinstance(provenance, dict) else None
        found = self.apart(client, quoted(name), _changed, data, name, edits, made)
        if isinstance(found, str):
            raise NotKept(found)
        return found

    def target(self, data: bytes, kept: Any, edits: Any, client: str = "") -> Target:
        """Return the file that the page has kept, with the edits of the file `data`; raises NotKept as `changed`."""
        found = self.apart(client, "your file", _target, data, kept, edits)
        if isinstance(found, str):
            raise NotKept(found)
        return found

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


def reading_of(piece: Piece, data: bytes, name: str) -> dict[str, Any] | None:
    """Return how a piece reads its file, for the edits of the page; None if the format is read only."""
    if kind_of(data, Path(name).suffix) == "abc":
        return None
    return reading_data(Reading.of(piece.score, piece.language.onset_steps))


def _changed(data: bytes, name: str, edits: Any, made: dict[str, Any] | None) -> bytes | str:
    """Return a file with changes, or the reason why it cannot hold them; a piece without a file is written to one."""
    changes, reading = edits_from(edits)
    if is_plain(data):
        score, controls = score_of(data)
        changes = [*controls, *changes]
        data, reading = midi(score, provenance=made), reading_of_written(score)
        if not changes:
            return data
    try:
        return changed(data, changes, reading, suffix=Path(name).suffix, provenance=made)
    except NotKept as error:
        return f"{NOT_HELD}: {error}"


def _target(data: bytes, plain: Any, edits: Any) -> Target | str:
    kept = from_plain(Kept, plain, "kept")
    changes, found = ([] if edits is None else edits_from(edits)[0]), decoded(kept.file)
    if not changes:
        return Target(data=found, reading=kept.reading, read=kept.read)
    try:
        found, reading = changed_as_read(found, changes, kept.reading)
        return Target(
            data=found, reading=reading, read=changed_as_read(data, changes, kept.read)[1]
        )
    except NotKept as error:
        return f"{NOT_HELD}: {error}"


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
    return _shown(stem) or "Your file"


def title_shown(piece: Piece, data: bytes, name: str) -> str:
    """Return the title of an opened piece: that of its notation, or else its name."""
    title = "" if kind_of(data, Path(name).suffix) == "midi" else _shown(piece.score.texts.title)
    return piece.name if NO_TITLE.fullmatch(title) else title


def _shown(text: str) -> str:
    title = "".join(c for c in text if c.isprintable()).strip()
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1].rstrip()}…"


def notices(piece: Piece) -> list[str]:
    """Return notices on what was changed or left out, to be shown above the roll."""
    # Plain strings are details, which are shown in the fold below the roll.
    return [remark for remark in piece.remarks if isinstance(remark, Remark)]


def made_here(data: bytes) -> dict[str, Any] | None:
    """Return the provenance stored in a file that was written here."""
    found = MADE_HERE.search(data[: 1 << 14])
    try:
        provenance = from_json(found[1], "it") if found else None
    except ValueError:
        return None
    return provenance if isinstance(provenance, dict) else None
