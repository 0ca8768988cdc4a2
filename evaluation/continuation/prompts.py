"""The prompts of the groove experiment, the first bars of the pieces in a folder, and its reference passages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.generation.sampling import Sampling
from tokenization.analysis.metres import bar_lines
from tokenization.formats import ENDINGS, read_file
from tokenization.language import Language
from tokenization.records import check_fields
from tokenization.score import Notes, Score


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How prompts are continued; the defaults are those of the paper (section 3.3 and appendix C.2)."""

    prompt_bars: int = 2
    tokens: int = 1024  # of prompt and continuation together
    temperature: float = 0.6
    samples: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "prompt_bars", "tokens", "samples")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more")
        Sampling(temperature=self.temperature)  # checks the temperature


Passage = tuple[np.ndarray, Score]
"""The tokens of a continuation, and the score of prompt and continuation together."""


@dataclass(frozen=True, kw_only=True)
class PromptedPiece:
    """The first bars of a piece, and the whole piece as encoded in the language."""

    name: str
    style: str
    bars: int
    ids: np.ndarray  # of the prompt
    piece_ids: np.ndarray
    piece: Score
    setting: Any  # what the language stores outside the tokens

    @property
    def start_ticks(self) -> int:
        """The tick at which the continuation begins."""
        return int(bar_lines(self.piece, self.bars)[-1])

    @cached_property
    def score(self) -> Score:
        """The notes that begin in the prompt."""
        notes = self.piece.notes
        return self.piece.replace(notes=notes[notes.onset_ticks < self.start_ticks])

    def passage(self, language: Language, ids: np.ndarray, begun: int | None = None) -> Passage:
        """Return a sequence without its first `begun` tokens, or without as many bars as the prompt has."""
        if begun is None:
            begun = prompt_length(language, language.bars(ids), self.bars)
        return ids[begun:], language.decode(ids, self.setting)


def prompt_length(language: Language, bar_starts: np.ndarray, bars: int) -> int:
    """Return the number of tokens in the first bars of a sequence, including the token that begins the next bar."""
    return int(bar_starts[bars]) + (language.bar is not None)


def read_prompts(
    folder: Path,
    language: Language,
    *,
    bars: int,
    tokens: int,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[PromptedPiece], list[str]]:
    """Return the prompts from the music files in a folder, and error messages for files without a usable prompt.

    A prompt must be shorter than `tokens`. A `limit` selects files by a hash of their names.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}: give one with MIDI files")
    paths = [p for p in folder.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file()]
    if not paths:
        raise ValueError(f"{folder} holds no MIDI files; give a folder with some")
    names = [path.relative_to(folder).as_posix() for path in paths]
    prompts: list[PromptedPiece] = []
    refused: list[str] = []
    drawn = sorted(names, key=lambda name: (zlib.crc32(name.encode(errors="replace")), name))
    for name in drawn:
        if len(prompts) == limit:
            break
        try:
            prompts.append(read_prompt(folder, name, language, bars, tokens))
        except (ValueError, OSError) as error:
            refused.append(f"{error}" if name in str(error) else f"{name}: {error}")
        progress(len(prompts) + len(refused), len(names) if limit is None else limit)
    if not prompts:
        shown = "; ".join(refused[:2])
        raise ValueError(f"none of the {len(names)} files in {folder} gives a prompt: {shown}")
    return sorted(prompts, key=lambda prompt: prompt.name), sorted(refused)


def style_of(name: str) -> str:
    """Return STYLE of a file named CHART.STYLE.mid, as in both groove data sets, or else the name itself."""
    stem = Path(name).stem
    return stem.partition(".")[2] or stem


def read_prompt(
    folder: Path, name: str, language: Language, bars: int, tokens: int
) -> PromptedPiece:
    """Return the prompt from one file of a folder."""
    encoded = language.encode(language.arrange(read_file(folder / name)))
    if len(encoded.bars) <= bars:
        raise ValueError(
            f"{name} has {len(encoded.bars)} bars; it needs more than the {bars} of the prompt"
        )
    length = prompt_length(language, encoded.bars, bars)
    if length >= tokens:
        raise ValueError(
            f"{name} has {length} tokens in its first {bars} bars, which leaves none of the {tokens} to write"
        )
    return PromptedPiece(
        name=name,
        style=style_of(name),
        bars=bars,
        ids=encoded.ids[:length],
        piece_ids=encoded.ids,
        piece=language.decode(encoded.ids, encoded.setting),
        setting=encoded.setting,
    )


# Reference passages, as long as the models' continuations, which bound their scores:
#
# looped  the prompt, repeated: the highest possible score
# piece   the real continuation of the piece
# other   the continuation of a random piece of another style: music that ignores the prompt

REFERENCE_PASSAGES = {
    "looped": "prompt looped",
    "piece": "the piece itself",
    "other": "another style",
}


def reference_passages(
    language: Language,
    prompts: Sequence[PromptedPiece],
    prompt: PromptedPiece,
    tokens: int,
    seed: int,
) -> dict[str, Passage | None]:
    """Return the passages by name; None for `other` if all prompts are of one style."""
    other = _other(prompts, prompt, seed)
    sequences = {
        "looped": looped(language, prompt, tokens),
        "piece": prompt.piece_ids,
        "other": None if other is None else other.piece_ids,
    }
    return {
        name: None if ids is None else prompt.passage(language, ids[:tokens])
        for name, ids in sequences.items()
    }


def looped(language: Language, prompt: PromptedPiece, tokens: int) -> np.ndarray:
    """Return the prompt repeated until it has more than `tokens` tokens."""
    times = 2
    while True:
        ids = language.encode(_repeated(prompt.score, prompt.start_ticks, times)).ids
        if len(ids) > tokens:
            return ids
        times *= 2


def _repeated(score: Score, period_ticks: int, times: int) -> Score:
    notes = score.notes
    starts = period_ticks * np.arange(times)
    return score.replace(
        notes=Notes.concatenate(
            notes.replace(onset_ticks=notes.onset_ticks + start) for start in starts
        ).sorted(),
        markers=tuple(
            marker.at(marker.onset_ticks + int(start))
            for start in starts
            for marker in score.markers
            if marker.onset_ticks < period_ticks
        ),
    )


def _other(
    prompts: Sequence[PromptedPiece], prompt: PromptedPiece, seed: int
) -> PromptedPiece | None:
    """Draw a prompt of another style, the same one for the same seed; None if there is none."""
    others = [other for other in prompts if other.style != prompt.style]
    if not others:
        return None
    random = np.random.default_rng([seed, zlib.crc32(prompt.name.encode(errors="replace"))])
    return others[random.integers(len(others))]
