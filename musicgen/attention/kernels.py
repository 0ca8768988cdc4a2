"""The compiled causal product of pytorch-fast-transformers, an optional extra, behind the signature of our own sums.

B batch, T time, H heads, M features, D value width.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from torch import Tensor


def causal_sums(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y_i = Σ_{j≤i} (q_i·k_j) v_j from a state and the state after it, as `causal_sums.Sums`.

    The kernels know float32 alone: other precisions are converted to it, and y comes back in the state's. They know
    neither a state, which is added around them, nor a decay, which is refused.
    """
    if decay is not None:
        raise ValueError(
            "the fast-transformers backend knows no decay, which horizons or this positional encoding ask for: "
            "use backend 'chunked'"
        )
    product = _causal_dot_product()
    q, k, v = (x.float().transpose(1, 2).contiguous() for x in (q, k, v))  # (B, H, T, ·)
    y = product(q, k, v).to(state.dtype) + q.to(state.dtype) @ state
    return y.transpose(1, 2), state + (k.mT @ v).to(state.dtype)


def _causal_dot_product() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    try:
        # An extra: type checkers need not have it.
        product = import_module("fast_transformers.causal_product")
    except ImportError as error:
        raise ValueError(
            "the fast-transformers backend needs the package pytorch-fast-transformers, which is not installed: "
            "run `make fast-transformers` in a clone, or `pip install 'musicgen[fast-transformers]'`"
        ) from error
    return product.causal_dot_product
