"""Keyboard music of the Polish musical heritage (The Fryderyk Chopin Institute), as MIDI files made from scores."""

from __future__ import annotations

import re
from pathlib import Path

from tokenization.language import Language
from tokenization.score import Score
from training.data.sources.source import (
    Found,
    Listing,
    Piece,
    Source,
    arranged,
    read,
    shown,
    split_by_name,
)
from training.data.sources.works import title

LIST = "list.tsv"
_CORRECTED = re.compile(r"\s*\[post.correcturam\]")  # a second reading of the same source
_COLUMNS = 7  # file, composer, title, metres, notes, bars, bars of another length


class PolishKeyboard(Source):
    """A file a piece, and a list with composers and titles."""

    name = "polish-keyboard"
    title = "Polish Music Heritage: keyboard music"
    shape = f"MIDI files of pieces, and {LIST} that lists them"
    language = "ensemble"
    licence = (
        "CC BY 4.0, The Fryderyk Chopin Institute (Polish Music Heritage in Open Access, polishscores.org); changed: "
        "made from its Humdrum scores, repeats played once, without grace notes and dynamics"
    )
    style = "keyboard"

    def fits(self, listing: Listing) -> bool:
        return _list(listing) is not None

    def find(self, listing: Listing, validation: float) -> Found:
        file = _list(listing)
        assert file is not None, "a folder is looked at before it is read"
        folder = file.removesuffix(LIST)
        works = {
            folder + row[0]: "".join(title(row[1], _CORRECTED.sub("", row[2])))
            for row in _rows(listing.path(file))
        }
        pieces = []
        for name in listing.midi_files:
            stem = name.rpartition(".")[0]
            split = split_by_name(stem.removeprefix(folder), validation=validation)
            work = works.get(stem) or shown(stem.removeprefix(folder))
            pieces.append(listing.piece(name, split, work=work))
        return Found(pieces=pieces)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        # They were made from scores: their beats are right.
        return arranged(read(piece).replace(beats_known=True), language)


def _list(listing: Listing) -> str | None:
    """Return the list of pieces, if there is one whose first line has its columns and names a MIDI file."""
    files = {*listing.files}
    for file in listing.files:
        if file.rpartition("/")[2] == LIST:
            rows = _rows(listing.path(file))
            if rows and f"{file.removesuffix(LIST)}{rows[0][0]}.mid" in files:
                return file
    return None


def _rows(path: Path) -> list[list[str]]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [row for line in lines if len(row := line.split("\t")) == _COLUMNS]
