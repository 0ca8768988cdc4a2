"""One request to an engine of its own, as a stream of tokens, and how many rows went through each step."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from musicgen.generation.batch import RowsAlone, RowsTogether
from musicgen.generation.engine import Engine, one_thread
from musicgen.generation.job import Job, checked
from musicgen.generation.request import Request, order
from musicgen.model.performer import Performer
from tests.musicgen.toys import Anything

ENDED = -1  # stands in the stream for a variation that has ended, or has no token at this moment


def asked(
    model: Performer,
    prompt: Any,
    request: Request,
    grammar: Any = None,
    ordered: dict[str, Any] | None = None,
    **named: Any,
) -> Job:
    """Return a request to a model as a job; `ordered` is what else an order says."""
    ids, rules = checked(model, prompt), grammar or Anything()
    return Job(model, order(request, ids, rules, **(ordered or {})), **named)


def generate(
    model: Performer,
    prompt: Any,
    request: Request,
    *,
    grammar: Any = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[np.ndarray]:
    """Yield the new tokens of all variations as they come: an array (variations,) a step, ENDED where one has ended."""
    job = asked(model, prompt, request, grammar, cancelled=cancelled)
    engine = Engine(model)
    engine.add(job)
    return _stream(engine, job)


def written(
    model: Performer, prompt: Any, request: Request, *, grammar: Any = None, **ordered: Any
) -> np.ndarray:
    """Return the new tokens of all variations, (variations, T), ENDED after the end of each.

    More than eight are written in groups, of which some may be a few steps ahead of others.
    """
    job = asked(model, prompt, request, grammar, ordered)
    engine = Engine(model)
    engine.add(job)
    for _ in _stream(engine, job):
        pass
    rows = np.full((request.variations, job.steps), ENDED)
    for row, tokens in zip(rows, job.rows, strict=True):
        row[: len(tokens)] = tokens
    return rows


def _stream(engine: Engine, job: Job) -> Iterator[np.ndarray]:
    with one_thread():
        while engine.work():
            given = np.array([row[-1] if row else ENDED for row in job.fresh()])
            if (given != ENDED).any():
                yield given
    job.check()


def counted(monkeypatch: Any) -> list[int]:
    """Return a list that grows by the number of rows of each step."""
    rows: list[int] = []
    for batch in (RowsTogether, RowsAlone):

        def counting(self: Any, numbers: Any, tokens: Any, step: Any = batch.step) -> Any:
            rows.append(len(numbers))
            return step(self, numbers, tokens)

        monkeypatch.setattr(batch, "step", counting)
    return rows
