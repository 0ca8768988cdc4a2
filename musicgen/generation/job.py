"""A request at work: what it asked for, what has come of it, and its variations that are being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from musicgen.common.learning import generator_from
from musicgen.generation.request import Order, Progress
from musicgen.performer import Performer, State

WINDOW = 1024  # tokens read by the same products: bounds the memory of any prompt

After = tuple[Tensor, State]  # the logits after the last token, (1, V), and the state there


def noise_of(ids: np.ndarray) -> torch.Generator:
    """Return what an encoding of position draws from after a prompt: whatever the seed, requests share its state."""
    return generator_from(crc32(ids.astype(np.int64).tobytes()))


class ReadPrompt:
    """A prompt that is being read, and the state after it, which requests with the same prompt share."""

    def __init__(self, model: Performer, wanted: Order) -> None:
        self._pieces = self._read(model, wanted)
        self.after: After | None = None

    def go_on(self) -> None:
        """Read a window of the prompt in one more layer; at the end there is the state `after` it."""
        next(self._pieces, None)

    def _read(self, model: Performer, wanted: Order) -> Iterator[None]:
        """Read a prompt in pieces, between which others get their steps.

        Pieces are layers: cut in time, products would have other sizes, and with them other last bits.
        """
        tokens = torch.from_numpy(wanted.ids).to(model.embedding.weight.device)[None]
        state = model.start(noise_of(wanted.ids))
        if model.recall is not None:
            recalls = model.recall.begin(
                elsewhere=wanted.elsewhere, unlike=wanted.unlike, sources=wanted.sources,
                strength=wanted.request.sampling.recall,
            )  # fmt: skip
            state = replace(state, recalls=(recalls,))
        logits = None
        for window in tokens.split(WINDOW, dim=1):
            logits, state = yield from model.prefill_in_pieces(window, state)
        assert logits is not None, "a checked prompt has at least one token"
        for recalled in state.recalls or ():
            recalled.adapt_limit()
        self.after = logits, state


@torch.inference_mode()
def state_after_a_token(model: Performer) -> State:
    """Return the state of a row as it is at first; that of a softmax grows."""
    token = torch.zeros(1, 1, dtype=torch.long, device=model.embedding.weight.device)
    return model.prefill(token, model.start(torch.Generator().manual_seed(0)))[1]


BAR_SECONDS = 2.0  # how long a bar of four takes at 120 beats a minute


def checked(model: Performer, prompt: Any) -> np.ndarray:
    """Return a prompt's tokens, or say what is wrong with them."""
    ids = np.asarray(prompt).astype(np.int64)
    size = model.config.vocabulary_size
    if ids.ndim != 1:
        raise ValueError(f"the prompt has {ids.ndim} dimensions; it must be one sequence of tokens")
    if not len(ids):
        raise ValueError("the prompt is empty; give at least one token, the begin token say")
    if ids.min() < 0 or ids.max() >= size:
        wrong = ids[(ids < 0) | (ids >= size)][0]
        raise ValueError(
            f"the prompt has token {wrong}, but the model knows 0 … {size - 1}; is it of another language?"
        )
    if model.training:
        raise ValueError("the model is in training mode; call its eval() before generating")
    return ids


class Job(Progress):
    """A request at work."""

    def __init__(
        self,
        model: Performer,
        wanted: Order,
        cancelled: Callable[[], bool] = lambda: False,
        owner: str = "",
    ) -> None:
        """Refuse a prompt of another language."""
        variations = wanted.request.variations
        super().__init__(variations)
        self.ids, self.order, self.request = checked(model, wanted.ids), wanted, wanted.request
        self.cancelled, self.owner = cancelled, owner
        self.prompt = wanted.prompt
        self.writing = [Row(self, variation) for variation in range(variations)]
        self._seen = [0] * variations

    @property
    def bars(self) -> int:
        return min((row.bars for row in self.writing), default=0)

    def let_go(self) -> None:
        """Keep only the result: states, and rows that refer back to the job, would wait for a collector."""
        self.writing, self.cancelled = [], lambda: False

    def fresh(self) -> list[list[int]]:
        """Return what is new in each variation since the last time."""
        new = [row[seen:] for row, seen in zip(self.rows, self._seen, strict=True)]
        self._seen = [seen + len(more) for seen, more in zip(self._seen, new, strict=True)]
        return new


class Stage(Enum):
    """What a row does: it waits for room, then for its prompt to be read, then it is written."""

    WAITING = 0
    READING = 1
    PLAYING = 2


class Row:
    """A variation of a job that is being written."""

    def __init__(self, job: Job, variation: int) -> None:
        seed = job.request.seed
        self.job, self.tokens = job, job.rows[variation]
        # Its own grammar, while it does not draw with others.
        self.grammar = job.order.grammar.select(np.zeros(1, np.int64))
        self.stage = Stage.WAITING
        # Of the batch's rows; guided music has a twin row that does not see what guides it.
        self.numbers: list[int] = []
        # The logits of what comes next, (V,), and the twin's.
        self.scores = self.unguided = np.empty(0)
        self.drawn = 0  # the token that is to be absorbed
        self.heard_since: float | None = None  # when there was something to hear
        low, high = seed & 0xFFFFFFFF, seed >> 32  # apart: numpy takes numbers 32 bits at a time
        self.random = np.random.default_rng([low, variation, high])
        self._begun = self._first = int(self.grammar.bars[0])

    @property
    def size(self) -> int:
        """How many rows of the batch it takes."""
        return 2 if self.job.order.guiding else 1

    @property
    def bars(self) -> int:
        """How many bars have begun since the first token."""
        return self._begun - self._first

    def lead(self, now: float) -> float:
        """Return how many bars it is ahead of what is heard of it."""
        if self.bars < 1:
            return 0.0
        self.heard_since = self.heard_since or now
        return self.bars - (now - self.heard_since) / BAR_SECONDS

    def take(self, token: int, begun: int) -> bool:
        """Take a token, with which so many bars have begun, and say whether there are more to come."""
        order = self.job.order
        self.drawn, self._begun = token, begun
        if order.before_bar is not None and begun > order.before_bar:
            return False
        self.tokens.append(token)
        return token != order.end and len(self.tokens) != order.request.tokens

    @property
    def twin_follows(self) -> bool:
        """Whether the twin takes the token that was drawn."""
        return len(self.numbers) > 1 and self.drawn not in self.job.order.guiding

    def guide(self) -> None:
        """Let the music keep to what the twin does not see."""
        if len(self.numbers) > 1:
            more = self.job.request.sampling.guidance - 1
            self.scores = self.scores + more * (self.scores - self.unguided)
