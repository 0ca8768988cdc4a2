"""The files that commands write of music that was made: MIDI, scores, sound, and how it was made."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.progress import progress_bar

if TYPE_CHECKING:
    from musicgen.continuation import Take
    from tokenization.score import Score


def writable(folder: Path) -> Path:
    """Make the folder to write to, or say before the work what is wrong with it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give -o a folder to write to")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} may not be written to; give another folder with -o")
    return folder


def write_take(
    folder: Path, take: Take, scores: dict[str, Score], *, with_score: bool
) -> list[Path]:
    """Write the scores of one take, and what is known of them."""
    from tokenization.formats import write_score
    from tokenization.whole_file import write_whole

    paths = [folder / f"{stem}.mid" for stem in scores]
    for path, score in zip(paths, scores.values(), strict=True):
        for ending in (".mid", ".musicxml") if with_score else (".mid",):
            write_score(path.with_suffix(ending), score, take.provenance)
    facts = {**take.provenance, "tokens": take.tokens, "files": [path.name for path in paths]}
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    # A name that is no text becomes escapes, which JSON reads as the same name.
    write_whole(paths[0].with_suffix(".json"), text.encode(errors="backslashreplace"))
    return paths


def sound(midi_files: Sequence[Path], soundfont: Path | None) -> None:
    """Write a WAV beside each MIDI file."""
    from app.audio import render_to

    with progress_bar("sound: files") as show:
        for done, path in enumerate(midi_files, 1):
            render_to(path.with_suffix(".wav"), path.read_bytes(), soundfont)
            show(done, len(midi_files))


def first_free(folder: Path, kinds: Sequence[str]) -> int:
    """Return the number that follows those of all files that are there and begin so."""
    taken = [-1]
    for path in folder.iterdir():
        for kind in kinds:
            number = path.stem.removeprefix(kind)
            if number != path.stem and number.isdecimal():
                taken.append(int(number))
    return max(taken) + 1
