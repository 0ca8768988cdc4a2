"""The layers of a model compiled, one for all, where that works on this machine; else as they are.

Compiled is what all layers do alike and what most of a step is: a layer. What is computed once for all of them, such as
the waves of an encoding or the sorted times of metric heads, is left as it is. A machine may lack a compiler, or have
one that fails on a layer; so one step is tried before the first, and learns nothing.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from musicgen.common.learning import generator_of
from musicgen.model.performer import Performer
from training.config import RunConfig
from training.data.batches import Batches, next_token_loss
from training.devices import Sealed, to_device


def compiled(
    model: Performer, module: Any, fabric: Any, config: RunConfig, batches: Batches
) -> list[str]:
    """Compile the layers of a model, which the module runs, where that is wanted and works; return remarks."""
    wanted = config.device.compile
    if wanted is False or (wanted is None and fabric.device.type != "cuda"):
        return []
    if config.data.windows > 1:
        return ["Nothing is compiled: sequences in several windows are learned from as they come."]
    for block in model.blocks:
        block.forward = torch.compile(block.forward, dynamic=False)
    try:
        with warnings.catch_warnings():  # which a compiler gives of what it looks at
            warnings.simplefilter("ignore")
            _try(model, module, fabric, config, batches)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a compiler may run into
        for block in model.blocks:
            del block.forward  # the method of its class again
        reason = " ".join(str(error).split())[:200]
        return [f"The layers are not compiled: {type(error).__name__}: {reason}"]
    finally:
        model.zero_grad(set_to_none=True)
    return []


def _try(model: Performer, module: Any, fabric: Any, config: RunConfig, batches: Batches) -> None:
    """Go through one step but for the optimiser's part."""
    first = batches.batch(0)
    share = first[: math.ceil(len(first) / config.optimiser.accumulate)]
    tokens = to_device(share, fabric.device)
    code = Sealed(model.begin(generator_of(config.seed)))
    logits = module(tokens[:, :-1].clamp(min=0), code)
    fabric.backward(next_token_loss(logits, tokens[:, 1:]).sum())
