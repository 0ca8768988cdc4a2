"""Similarities of style between files, and in folders of prompts and continuations by any model.

Such a folder has NAME.prompt.mid, and prompt and continuation together as NAME.prompt_cont_0.mid and so on, the names
that the authors of SPE and `musicgen continue` use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.metrics.estimates import estimate, grouped, means
from evaluation.metrics.style import compared
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.formats import read_file
from tokenization.score import excerpt

Row = dict[str, Any]
_PROMPT = ".prompt.mid"
_CONTINUATION = re.compile(r"(?P<name>.+?)(\.prompt)?\.prompt_cont_\d+\.mid")


def compared_files(reference: str, outputs: Sequence[str]) -> list[Row]:
    """Return the similarities of files to a reference."""
    score = read_file(reference)
    if not len(score.notes):
        raise ValueError(f"{reference} has no notes, so there is no style to compare with")
    return [
        {"output": name, **row}
        for name in outputs
        for row in compared({"reference": score}, read_file(name))
    ]


def compared_folders(folders: Sequence[str]) -> Row:
    """Return the similarities of continuations to their prompts as means over styles, by folder."""
    rows = {folder: list(_rows_of(Path(folder))) for folder in folders}
    columns = ("against", "metric", "quarter")
    return {
        "counts": {
            folder: {kind: len({row[kind] for row in own}) for kind in ("file", "style")}
            for folder, own in rows.items()
        },
        "similarity": [
            {
                "output": folder,
                **dict(zip(columns, key, strict=True)),
                **asdict(estimate(means(group, "style", "similarity"))),
            }
            for folder, own in rows.items()
            for key, group in grouped(own, *columns).items()
        ],
    }


def _rows_of(folder: Path) -> Iterator[Row]:
    files = sorted(folder.iterdir())
    prompts = {
        file.name.removesuffix(_PROMPT): file for file in files if file.name.endswith(_PROMPT)
    }
    found = [(file, match) for file in files if (match := _CONTINUATION.fullmatch(file.name))]
    if not found:
        raise ValueError(
            f"{folder} has no continuations; they are named NAME.prompt_cont_0.mid and so on"
        )
    for file, match in found:
        if (name := match["name"]) not in prompts:
            raise ValueError(f"{folder} has {file.name}, but not {name}{_PROMPT}")
        prompt, whole = read_file(prompts[name]), read_file(file)
        music = excerpt(whole, int(bar_lines(whole, bar_count(prompt))[-1]))
        for row in compared({"prompt": prompt}, music):
            yield {"file": file.name, "style": style_of(name), **row}


def style_of(name: str) -> str:
    """Return STYLE of a file named CHART.STYLE.mid, as in both groove data sets, or else the name itself."""
    stem = Path(name).stem
    return stem.partition(".")[2] or stem
