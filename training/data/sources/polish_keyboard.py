"""Polish keyboard music (The Fryderyk Chopin Institute), as MIDI files made from scores."""

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
    printable,
    read,
    split_of,
)
from training.data.sources.works import title

LIST = "list.tsv"
_CORRECTED = re.compile(r"\s*\[post.correcturam\]")  # another reading of the same source
_COLUMNS = 7  # file, composer, title, metres, notes, bars, bars of irregular length


class PolishKeyboard(Source):
    """One file per piece, and a list of composers and titles."""

    name = "polish-keyboard"
    title = "Polish Music Heritage: keyboard music"
    shape = f"MIDI files, listed in {LIST}"
    language = "ensemble"
    licence = (
        "CC BY 4.0, The Fryderyk Chopin Institute (Polish Music Heritage in Open Access, polishscores.org); changed: "
        "made from its Humdrum scores, repeats played once, without grace notes and dynamics"
    )
    style = "keyboard"

    def find(self, listing: Listing, validation: float) -> Found:
        file = _list(listing)
        if file is None:
            return Found(pieces=[])
        folder = file.removesuffix(LIST)
        works = {
            folder + row[0]: "".join(title(row[1], _CORRECTED.sub("", row[2])))
            for row in _rows(listing.path(file))
        }
        pieces = []
        for name in listing.midi_files:
            stem = name.rpartition(".")[0]
            split = split_of(stem.removeprefix(folder), {"validation": validation})
            work = works.get(stem) or printable(stem.removeprefix(folder))
            pieces.append(listing.piece(name, split, work=work))
        return Found(pieces=pieces)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        # Made from scores, so their beats are right.
        return arranged(read(piece).replace(beats_known=True), language)


def _list(listing: Listing) -> str | None:
    """Return the list of pieces, if there is one that names an existing MIDI file in its first row."""
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
