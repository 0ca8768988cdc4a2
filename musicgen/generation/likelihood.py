"""The loss of a model at each position of a piece of any length."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from musicgen.common.learning import generator_from
from musicgen.performer import Performer

WINDOW = 1024  # tokens read at once: bounds the memory that any piece takes


@torch.inference_mode()
def position_losses(model: Performer, ids: np.ndarray, seed: int) -> np.ndarray:
    """Return −log p of each token given all tokens before it, in nats: (T + 1,) ids → (T,) float64.

    The noise of a stochastic encoding is drawn once for the piece, from the seed.
    """
    device = model.embedding.weight.device
    tokens = torch.from_numpy(ids.astype(np.int64)).to(device)[None]
    state = model.start(generator_from(seed))
    losses = []
    for start in range(0, len(ids) - 1, WINDOW):
        inputs = tokens[:, start : start + WINDOW]
        targets = tokens[0, start + 1 : start + 1 + WINDOW]
        logits, state = model.extend(inputs[:, : len(targets)], state)
        losses.append(F.cross_entropy(logits[0].float(), targets, reduction="none").cpu())
    return torch.cat(losses).double().numpy()
