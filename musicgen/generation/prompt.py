"""A prompt is read by the parallel form, a piece at a time, so that others need not wait for a long one."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import torch
from torch import Tensor

from musicgen.common.learning import generator_from
from musicgen.model.performer import Performer, State

WINDOW = 1024  # tokens read by the same products: bounds the memory of any prompt

After = tuple[Tensor, State]  # the logits after the last token, (1, V), and the state there


def read_by_layers(model: Performer, ids: np.ndarray, seed: int) -> Generator[None, None, After]:
    """Return the logits and the state after a prompt; yields after each piece of the work: a window in one layer.

    Cut in time instead, products would have other sizes, and with them other last bits.
    """
    tokens = torch.from_numpy(ids).to(model.embedding.weight.device)[None]
    state = model.start(generator_from(seed))
    logits = None
    for window in tokens.split(WINDOW, dim=1):
        logits, state = yield from model.prefill_in_pieces(window, state)
    assert logits is not None, "a checked prompt has at least one token"
    return logits, state


@torch.inference_mode()
def state_after_a_token(model: Performer) -> State:
    """Return the state of a row as it is at first; that of a softmax grows."""
    token = torch.zeros(1, 1, dtype=torch.long, device=model.embedding.weight.device)
    return model.prefill(token, model.start(torch.Generator().manual_seed(0)))[1]
