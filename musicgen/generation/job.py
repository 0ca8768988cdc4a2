"""A request that the engine works on: its order, its progress, and a row for each variation still being written."""

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

WINDOW = 1024  # tokens of a prompt read at once: bounds the memory that any prompt takes

After = tuple[Tensor, State]  # the logits after the last token, (1, V), and the state there


def noise_of(ids: np.ndarray) -> torch.Generator:
    """Return the generator of the encoding's noise for a prompt: the same for every seed, so that states are shared."""
    return generator_from(crc32(ids.astype(np.int64).tobytes()))


class ReadPrompt:
    """A prompt that is read in pieces; all requests with this prompt share the state after it."""

    def __init__(self, model: Performer, wanted: Order) -> None:
        self._pieces = self._read(model, wanted)
        self.after: After | None = None

    def go_on(self) -> None:
        """Compute one more layer of the current window; at the end of the prompt, set `after`."""
        next(self._pieces, None)

    def _read(self, model: Performer, wanted: Order) -> Iterator[None]:
        """Read a prompt in pieces, between which other rows can take their steps.

        A piece is one layer of a window. Shorter windows would change the sizes of products, and so their last bits.
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
            logits, state = yield from model.prefill_by_layer(window, state)
        assert logits is not None, "a checked prompt has at least one token"
        for recall in state.recalls or ():
            recall.adapt_limit()
        self.after = logits, state


@torch.inference_mode()
def state_after_a_token(model: Performer) -> State:
    """Return the state of a row after one token; with softmax attention, states grow from there."""
    token = torch.zeros(1, 1, dtype=torch.long, device=model.embedding.weight.device)
    return model.prefill(token, model.start(torch.Generator().manual_seed(0)))[1]


BAR_SECONDS = 2.0  # how long a bar of four takes at 120 beats a minute


def checked(model: Performer, prompt: Any) -> np.ndarray:
    """Return a prompt's tokens; raises ValueError if the model cannot continue them."""
    ids = np.asarray(prompt).astype(np.int64)
    size = model.config.vocabulary_size
    if ids.ndim != 1:
        raise ValueError(f"the prompt has {ids.ndim} dimensions; it must be one sequence of tokens")
    if not len(ids):
        raise ValueError("the prompt is empty; give at least one token, such as the begin token")
    if ids.min() < 0 or ids.max() >= size:
        wrong = ids[(ids < 0) | (ids >= size)][0]
        raise ValueError(
            f"the prompt has token {wrong}, but the model's tokens are 0 … {size - 1}; is it in another language?"
        )
    if model.training:
        raise ValueError("the model is in training mode; call its eval() before generating")
    return ids


class Job(Progress):
    """A request that the engine works on."""

    def __init__(
        self,
        model: Performer,
        wanted: Order,
        cancelled: Callable[[], bool] = lambda: False,
        owner: str = "",
    ) -> None:
        """Check the prompt. The machine's time is shared equally among owners."""
        variations = wanted.request.variations
        super().__init__(variations)
        self.ids, self.order, self.request = checked(model, wanted.ids), wanted, wanted.request
        self.cancelled, self.owner = cancelled, owner
        self.prompt_key = wanted.prompt_key
        self.writing = [Row(self, variation) for variation in range(variations)]
        self._seen = [0] * variations

    @property
    def bars(self) -> int:
        return min((row.bars for row in self.writing), default=0)

    def let_go(self) -> None:
        """Keep only the result; rows refer back to the job, so their states would wait for the garbage collector."""
        self.writing, self.cancelled = [], lambda: False

    def fresh(self) -> list[list[int]]:
        """Return the tokens of each variation that are new since the last call."""
        new = [row[seen:] for row, seen in zip(self.rows, self._seen, strict=True)]
        self._seen = [seen + len(more) for seen, more in zip(self._seen, new, strict=True)]
        return new


class Stage(Enum):
    """The stages of a row: it waits for room, then its prompt is read, then its tokens are drawn."""

    WAITING = 0
    READING = 1
    PLAYING = 2


class Row:
    """A variation of a job that is being written."""

    def __init__(self, job: Job, variation: int) -> None:
        seed = job.request.seed
        self.job, self.tokens = job, job.rows[variation]
        # Its own grammar; a joint one replaces it while the row draws with others.
        self.grammar = job.order.grammar.select(np.zeros(1, np.int64))
        self.stage = Stage.WAITING
        # Its rows in the batch: with guidance, a second one (the twin) is not given the guiding tokens.
        self.numbers: list[int] = []
        # Logits of the next token, (V,), and the twin's.
        self.scores = self.unguided = np.empty(0)
        self.drawn = 0  # the latest token, which the batch takes next
        self.heard_since: float | None = None  # when it was first a bar ahead
        low, high = seed & 0xFFFFFFFF, seed >> 32  # numpy takes seeds as 32-bit words
        self.random = np.random.default_rng([low, variation, high])
        self._begun = self._first = int(self.grammar.bars[0])

    @property
    def size(self) -> int:
        """The number of rows of the batch that it takes."""
        return 2 if self.job.order.guiding else 1

    @property
    def bars(self) -> int:
        """The number of bars begun since its first token."""
        return self._begun - self._first

    def lead(self, now: float) -> float:
        """Return the number of bars that it is ahead of the listener."""
        if self.bars < 1:
            return 0.0
        self.heard_since = self.heard_since or now
        return self.bars - (now - self.heard_since) / BAR_SECONDS

    def take(self, token: int, begun: int) -> bool:
        """Append a token, after which `begun` bars have begun, and return whether the row goes on."""
        order = self.job.order
        self.drawn, self._begun = token, begun
        if order.before_bar is not None and begun > order.before_bar:
            return False
        self.tokens.append(token)
        return token != order.end and len(self.tokens) != order.request.tokens

    @property
    def twin_follows(self) -> bool:
        """Whether the twin is given the token that was drawn."""
        return len(self.numbers) > 1 and self.drawn not in self.job.order.guiding

    def guide(self) -> None:
        """Extrapolate the logits away from the twin's (classifier-free guidance)."""
        if len(self.numbers) > 1:
            more = self.job.request.sampling.guidance - 1
            self.scores = self.scores + more * (self.scores - self.unguided)
