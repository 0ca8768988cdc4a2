"""Takes of training prompts by the model that preference training starts from: drawn once, and kept on disk.

The prompts are the first bars of training pieces, of the half from which no critic learns that judges realism
(`Prepared.teaches`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.continuation import Continuation
from musicgen.critic import NewBars, faults
from musicgen.generation.request import Request
from musicgen.pieces import Prompt, decode_partial, piece_of_ids
from musicgen.playable import Playable, find
from tokenization.records import json_of
from tokenization.score import Score
from tokenization.whole_file import make_folder, write_whole
from training.config import PreferenceConfig, RunConfig
from training.data.shards import Shards

FAULT = 4.0  # log-odds of a fault by rule: a collapse, a silent part (musicgen/critic.py)
ODDS = "odds.json"  # in the folder of a run
Progress = Callable[[str, int, int], None]
Teacher = Callable[[Sequence[Sequence[Score]], NewBars], Sequence[np.ndarray]]
"""Returns the log-odds that takes are generated; a prompt's last one is its real piece (evaluation/teacher.py)."""


def settings(config: RunConfig) -> PreferenceConfig:
    """Return the settings of a preference training."""
    assert config.preference is not None, "called only for preference training"
    return config.preference


def folder_of_takes(config: RunConfig) -> Path:
    """Return the folder that keeps the takes of a run."""
    return Path(settings(config).folder or Path(config.run) / "takes")


def rows_of(config: RunConfig, shards: Shards) -> list[int]:
    """Return the rows of the prompts: one of each file, in random order."""
    asked = settings(config)
    fewest = asked.prompt_bars + asked.bars
    rows = [
        row
        for row in shards.rows("train").tolist()
        if shards.teaches(row) and len(shards.bars(row)) > fewest
    ]
    if len(rows) < 2:
        raise ValueError(
            f"{config.data.folder} has too few training pieces of more than {fewest} bars that may teach; "
            "ask for fewer preference.bars"
        )
    drawn = np.random.default_rng(config.seed).permutation(rows)
    _, first = np.unique(shards.file[drawn], return_index=True)
    return drawn[np.sort(first)][: asked.prompts].tolist()


class Takes:
    """Draws and reads takes."""

    def __init__(self, config: RunConfig, shards: Shards) -> None:
        assert config.start is not None, "RunConfig checks this"
        self.config, self.asked, self.shards = config, settings(config), shards
        self.model: Playable = find(config.start, "cpu")
        if self.asked.layers > (most := self.model.config["layers"]):
            raise ValueError(
                f"preference.layers is {self.asked.layers}; {config.start} has {most} layers"
            )
        self.folder = folder_of_takes(config)
        self._made: dict[str, Any] = {
            "weights": self.model.sha256,
            "data": shards.checksum,
            "prompt_bars": self.asked.prompt_bars,
            "bars": self.asked.bars,
            "takes": self.asked.takes,
            "seed": config.seed,
        }

    def draw(self, rows: Sequence[int], progress: Progress) -> None:
        """Draw the takes of prompts that the folder lacks."""
        make_folder(self.folder, "name another preference.folder")
        asked = self.asked
        for done, row in enumerate(rows):
            progress("drawing takes", done, len(rows))
            path = self._path(row)
            if path.is_file():
                self._read(path)
                continue
            request = Request(bars=asked.bars, variations=asked.takes, seed=self.config.seed)
            work = Continuation(self.model, self.prompt(row), request).finish()
            drawn = [[int(token) for token in ids[:]] for ids in work.job.rows]
            write_whole(path, json.dumps({**self._made, "row": row, "ids": drawn}).encode())
        progress("drawing takes", len(rows), len(rows))

    def judge(self, rows: Sequence[int], teacher: Teacher, progress: Progress) -> None:
        """Write the odds that each take is generated, and last the real bars, into the run's folder."""
        asked = self.asked
        new = NewBars(begun=asked.prompt_bars, stop=asked.prompt_bars + asked.bars)
        scores = []
        for done, row in enumerate(rows):
            progress("hearing takes", done, len(rows))
            setting = self.prompt(row).setting
            scores.append(
                [
                    decode_partial(self.model.language, ids, new.stop, setting)
                    for ids in self.sequences(row)
                ]
            )
        odds = {
            row: [
                round(asked.trust * min(float(doubt), FAULT) + FAULT * faults(score, new), 4)
                for doubt, score in zip(doubts, takes, strict=True)
            ]
            for row, doubts, takes in zip(rows, teacher(scores, new), scores, strict=True)
        }
        make_folder(Path(self.config.run), "choose another with --set run=…")
        write_whole(Path(self.config.run) / ODDS, json.dumps(odds).encode())

    def sequences(self, row: int) -> list[np.ndarray]:
        """Return the tokens of a prompt with each take, and last with the real bars."""
        prompt = self.prompt(row).ids
        begun = self.asked.prompt_bars + self.asked.bars
        real = self._piece(row).encoded
        takes = [
            np.append(prompt, np.array(new, prompt.dtype)) for new in self._read(self._path(row))
        ]
        own = real.ids[real.bars[self.asked.prompt_bars] : real.bars[begun]]
        if self.model.language.bar is not None:  # with which the prompt ends
            own = own[1:]
        return [*takes, np.append(prompt, own.astype(prompt.dtype))]

    def prompt(self, row: int) -> Prompt:
        """Return the first bars of a piece."""
        return self._piece(row).prompt(self.asked.prompt_bars)

    def _piece(self, row: int) -> Any:
        ids = np.asarray(self.shards.ids(row))
        return piece_of_ids(self.model.language, ids, self.shards.name(row))

    def _path(self, row: int) -> Path:
        return self.folder / f"{row}.json"

    def _read(self, path: Path) -> list[list[int]]:
        """Return the new tokens of each take; raises ValueError if they were made otherwise."""
        found = json_of(path)
        other = [key for key, value in self._made.items() if found.get(key) != value]
        if other:
            raise ValueError(
                f"{path} holds takes of other {', '.join(other)}; name another preference.folder"
            )
        return found["ids"]
