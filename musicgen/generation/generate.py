"""Continue a sequence of tokens: the prompt in one pass, then token by token from a state that does not grow.

Variations of one prompt are rows of one batch. Each draws from its own stream of randomness, seeded by the request's
seed and the variation's number, and all share the encoding's code, drawn from the seed.

The promise: on one machine and device the same request gives the same music, and variation i is the same however many
are asked for, and whatever else is asked of the model meanwhile (engine.py). On a CPU it holds to the last bit:
matrices are multiplied in ways that treat 1 to 8 rows alike, and more rows in groups of 8 (few_rows.py); all else is
computed row by row or number by number. On a GPU, and between machines, it holds to rounding: sooner or later another
token is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from musicgen.generation.engine import Engine
from musicgen.generation.job import Job, asked
from musicgen.generation.request import Grammar, Request
from musicgen.generation.threads import threads_for
from musicgen.model.performer import Performer

ENDED = -1  # stands in the stream for a variation that has ended, or has no token at this moment


def generate(
    model: Performer,
    prompt: Any,
    request: Request,
    *,
    grammar: Grammar | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[np.ndarray]:
    """Yield the new tokens of all variations as they come: an array (variations,) a step, ENDED where one has ended.

    `grammar` stands before the first token of one sequence and is copied; a prompt that breaks it is refused.
    `cancelled` is asked before every step (an Event's `is_set`, say); closing the iterator ends the work as well.
    """
    job = asked(model, prompt, request, grammar, cancelled)
    engine = Engine(model)
    engine.add(job)
    return _stream(engine, job)


def _stream(engine: Engine, job: Job) -> Iterator[np.ndarray]:
    with threads_for(engine.model):
        while engine.work():
            given = np.array([row[-1] if row else ENDED for row in job.fresh()])
            if (given != ENDED).any():
                yield given
    job.check()
