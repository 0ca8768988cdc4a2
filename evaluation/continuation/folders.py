"""Folders of prompts and continuations, by anybody's model: how like their prompts the continuations are.

A folder has NAME.prompt.mid, and the prompt with what comes after it as NAME.prompt_cont_0.mid and so on, as the
authors of SPE publish theirs. `musicgen continue NAME.prompt.mid` writes NAME.prompt.prompt_cont_0.mid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.continuation.experiment import SIMILARITY_KEY, by_style, compared
from evaluation.continuation.prompts import style_of
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.formats import read_file
from tokenization.score import excerpt

_PROMPT = ".prompt.mid"
_CONTINUATION = re.compile(r"(?P<name>.+?)(\.prompt)?\.prompt_cont_\d+\.mid")


def of_folders(folders: list[Path]) -> dict[str, Any]:
    """Return the similarities of the continuations to their prompts, by folder, means over styles."""
    rows = [row for folder in folders for row in _rows(folder)]
    counts = {
        str(folder): {
            kind: len({row[kind] for row in rows if row["output"] == str(folder)})
            for kind in ("file", "style")
        }
        for folder in folders
    }
    return {"counts": counts, "similarity": by_style(rows, SIMILARITY_KEY, "similarity")}


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    files = sorted(folder.iterdir())
    prompts = {
        file.name.removesuffix(_PROMPT): file for file in files if file.name.endswith(_PROMPT)
    }
    found = [(file, named) for file in files if (named := _CONTINUATION.fullmatch(file.name))]
    if not found:
        raise ValueError(
            f"{folder} has no continuations; they are called NAME.prompt_cont_0.mid and so on"
        )
    for file, named in found:
        if (name := named["name"]) not in prompts:
            raise ValueError(f"{folder} has {file.name}, but not {name}{_PROMPT}")
        prompt, whole = read_file(prompts[name]), read_file(file)
        bars = bar_count(prompt)
        music = excerpt(whole, int(bar_lines(whole, bars)[-1]))
        known = {"output": str(folder), "file": file.name, "style": style_of(name)}
        for row in compared({"prompt": prompt}, music):
            yield {**known, **row}
