"""Polish keyboard music (The Fryderyk Chopin Institute), as MIDI files made from scores."""

from __future__ import annotations

import re

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
        folder, rows = _listed(listing)
        works = {
            folder + row[0]: "".join(title(row[1], _CORRECTED.sub("", row[2]))) for row in rows
        }
        pieces = []
        for name in listing.midi_files if rows else ():
            stem = name.rpartition(".")[0]
            split = split_of(stem.removeprefix(folder), {"validation": validation})
            work = works.get(stem) or printable(stem.removeprefix(folder))
            pieces.append(listing.piece(name, split, work=work))
        return Found(pieces=pieces)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        # Made from scores, so their beats are right.
        return arranged(read(piece).replace(beats_known=True), language)


def _listed(listing: Listing) -> tuple[str, list[list[str]]]:
    """Return the folder and the rows of the list of pieces that names an existing MIDI file first, if there is one."""
    for file in listing.files:
        folder, slash, name = file.rpartition("/")
        if name == LIST:
            text = listing.path(file).read_text(encoding="utf-8", errors="replace")
            rows = [row for line in text.splitlines() if len(row := line.split("\t")) == _COLUMNS]
            if rows and f"{folder}{slash}{rows[0][0]}.mid" in listing.files:
                return folder + slash, rows
    return "", []
