"""What both faces of the program call: read a prompt, continue it, and keep the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from app.models import Model
from musicgen.generate import ENDED, Request, Stop, generate
from musicgen.sampling import Sampling
from tokenization.excerpt import excerpt
from tokenization.language import Grammar, Language
from tokenization.midi import Limits, read_midi, write_midi
from tokenization.score import Score

BAR_BEATS = 4
DEFAULT_BARS = 16


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The first bars of a piece, which are continued; no bars at all to start from nothing."""

    name: str
    ids: np.ndarray
    bars: int
    piece_bars: int  # of the whole piece
    setting: Any  # what the language keeps beside the tokens
    score: Score  # these bars as the model hears them
    remarks: tuple[str, ...] = ()

    @property
    def ticks(self) -> int:
        """The tick at which the continuation begins."""
        return self.bars * BAR_BEATS * self.score.ticks_per_beat


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How to go on; the length is `tokens` where given, else `bars`."""

    bars: int = DEFAULT_BARS
    tokens: int | None = None
    variations: int = 1
    seed: int = 0
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.95, top_p=0.95))
    may_end: bool = False  # let the music end by itself before that length


@dataclass(frozen=True, kw_only=True)
class Take:
    """One variation: the whole piece and, by itself, what is new."""

    number: int
    ids: np.ndarray  # of prompt and continuation
    tokens: int  # of the continuation
    whole: Score
    continuation: Score
    provenance: dict[str, Any]


def read_prompt(
    model: Model,
    source: bytes | str | Path,
    *,
    name: str,
    bars: int | None = None,
    tracks: Any = None,
    limits: Limits | None = None,
) -> Prompt:
    """Read a MIDI file as a prompt of its first bars, or of all of them."""
    score = read_midi(source, limits=limits or Limits(), name=name)
    arranged = model.language.arrange(score, tracks)
    encoded = model.language.encode(arranged)
    piece_bars = len(encoded.bars)
    if bars is not None and not 1 <= bars <= piece_bars:
        raise ValueError(f"{name} has {piece_bars} bars, so the prompt cannot be its first {bars}")
    bars = bars or piece_bars
    ids = encoded.ids[: encoded.bars[bars]] if bars < piece_bars else encoded.ids[:-1]
    heard = model.language.decode(ids, encoded.setting)
    if model.language.bar is not None:  # begun, so that nothing is added to the last bar
        ids = np.append(ids, np.array([model.language.bar], dtype=ids.dtype))
    return Prompt(
        name=name,
        ids=ids,
        bars=bars,
        piece_bars=piece_bars,
        setting=encoded.setting,
        score=heard,
        remarks=arranged.remarks,
    )


def no_prompt(model: Model) -> Prompt:
    """Return the beginning of a piece."""
    ids = np.array([model.language.begin])
    score = model.language.decode(ids)
    return Prompt(name="", ids=ids, bars=0, piece_bars=0, setting=None, score=score)


class Continuation:
    """One request: iterate to do the work; `takes` gives what there is at any time."""

    def __init__(self, model: Model, prompt: Prompt, wish: Wish) -> None:
        self.model, self.prompt, self.wish = model, prompt, wish
        self._steps: list[np.ndarray] = []

    def __iter__(self) -> Iterator[int]:
        """Generate; yields the number of steps so far. To stop early, stop iterating."""
        return self.run(lambda: False)

    def run(self, cancelled: Callable[[], bool]) -> Iterator[int]:
        """Generate until done or cancelled."""
        language, wish = self.model.language, self.wish
        grammar = language.grammar()
        begun = _bars_begun(language, self.prompt.ids)
        bars = None if wish.tokens else max(0, self.prompt.bars + wish.bars - begun)
        request = Request(
            variations=wish.variations,
            seed=wish.seed,
            sampling=wish.sampling,
            stop=Stop(tokens=wish.tokens, bars=bars, end=language.end),
        )
        stream = generate(
            self.model.performer,
            self.prompt.ids,
            request,
            grammar=grammar if wish.may_end else Endless(grammar, language.end),
            cancelled=cancelled,
        )
        for tokens in stream:
            self._steps.append(tokens)
            yield len(self._steps)

    def takes(self) -> list[Take]:
        """Return the variations as far as they have come."""
        steps = np.array(self._steps).reshape(len(self._steps), self.wish.variations)
        return [self._take(number, steps[:, number]) for number in range(self.wish.variations)]

    def _take(self, number: int, steps: np.ndarray) -> Take:
        new = steps[steps != ENDED]
        ids = np.concatenate([self.prompt.ids, new]).astype(np.uint16)
        whole = self.model.language.decode(ids, self.prompt.setting)
        return Take(
            number=number,
            ids=ids,
            tokens=len(new),
            whole=whole,
            continuation=excerpt(whole, self.prompt.ticks),
            provenance=self._provenance(number),
        )

    def _provenance(self, number: int) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "weights_sha256": self.model.sha256,
            "seed": self.wish.seed,
            "variation": number,
            "sampling": asdict(self.wish.sampling),
            "prompt": self.prompt.name or None,
            "prompt_bars": [1, self.prompt.bars] if self.prompt.bars else None,
        }


class Endless(Grammar):
    """A grammar that does not let the music end."""

    def __init__(self, grammar: Grammar, end: int) -> None:
        self._grammar, self._end = grammar, end

    @property
    def bars(self) -> np.ndarray:
        """How many bars each row has begun."""
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        """Return which tokens may come next, without the end."""
        mask = self._grammar.allowed().copy()
        mask[:, self._end] = False
        return mask

    def advance(self, tokens: np.ndarray) -> None:
        """Take one more token a row."""
        self._grammar.advance(tokens)

    def select(self, rows: np.ndarray) -> Endless:
        """Return copies of the given rows."""
        return Endless(self._grammar.select(rows), self._end)


def midi_of(score: Score, provenance: dict[str, Any]) -> bytes:
    """Return a MIDI file that says how it was made."""
    return write_midi(score, texts=(f"musicgen {json.dumps(provenance, ensure_ascii=True)}",))


def _bars_begun(language: Language, ids: np.ndarray) -> int:
    """Return how many bars a prompt has begun, as its grammar counts them."""
    grammar = language.grammar()
    for token in ids:
        grammar.advance(np.array([token]))
    return int(grammar.bars[0])
