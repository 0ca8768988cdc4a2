"""The files that commands write of music that was made: MIDI, scores, sound, and how it was made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from app.progress import progress_bar
from tokenization.whole_file import make_folder

if TYPE_CHECKING:
    from musicgen.continuation import Take
    from tokenization.score import Score

MOST_DIGITS = 6  # of a number: past a longer one names would grow too long


def writable(folder: Path) -> Path:
    """Make the folder to write to, or say before the work what is wrong with it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give -o a folder to write to")
    make_folder(folder, "give another one with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} may not be written to; give another folder with -o")
    return folder


def write_take(
    folder: Path, take: Take, scores: Callable[[int], dict[str, Score]], number: int, *, with_score: bool
) -> tuple[int, list[Path]]:  # fmt: skip
    """Write the scores of one take, and what is known of them; return the number after its own, and the MIDI files.

    A number that another command has taken meanwhile is left to it: the first file is the claim.
    """
    from tokenization.formats import write_score
    from tokenization.whole_file import write_text

    number, named = _claimed(folder, take, scores, number)
    first, *others = paths = [*named]
    for path in (*others, *(path.with_suffix(".musicxml") for path in paths if with_score)):
        write_score(path, named[path.with_suffix(".mid")], take.provenance)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_text(first.with_suffix(".json"), text)
    return number + 1, paths


def _claimed(
    folder: Path, take: Take, scores: Callable[[int], dict[str, Score]], number: int
) -> tuple[int, dict[Path, Score]]:
    """Write the first file of a take; return the number under which there was room for it, and all files to write."""
    from tokenization.formats import write_score

    while True:
        named = {folder / f"{stem}.mid": score for stem, score in scores(number).items()}
        first = next(iter(named))
        try:
            write_score(first, named[first], take.provenance, new=True)
        except FileExistsError:
            number += 1
        else:
            return number, named


def sound(midi_files: Sequence[Path], soundfont: Path | None) -> None:
    """Write a WAV beside each MIDI file."""
    from app.audio import render_to

    with progress_bar("sound: files") as show:
        for done, path in enumerate(midi_files, 1):
            render_to(path.with_suffix(".wav"), path.read_bytes(), soundfont)
            show(done, len(midi_files))


def first_free(folder: Path, kinds: Sequence[str]) -> int:
    """Return the number that follows those of all files that are there and begin so.

    To some systems `Song` and `song` are one name, or the two ways in which Unicode spells é.
    """
    beginnings, taken = [_alike(kind) for kind in kinds], [-1]
    for path in folder.iterdir():
        stem = _alike(path.stem)
        for beginning in beginnings:
            number = stem.removeprefix(beginning)
            if number != stem and number.isdecimal() and len(number) <= MOST_DIGITS:
                taken.append(int(number))
    return max(taken) + 1


def _alike(name: str) -> str:
    name = os.fsencode(name).decode("utf-8", "surrogateescape")  # whatever the locale knows
    return normalize("NFC", normalize("NFC", name).casefold())
