"""Sampling of one row in numpy: the reference of what the kernel draws."""

from collections.abc import Callable

import numpy as np

from musicgen.generation.sampling import Kinds, Sampling


def probabilities(
    logits: np.ndarray, sampling: Sampling, allowed: np.ndarray | bool = True, kinds: Kinds | None = None
) -> np.ndarray:  # fmt: skip
    """Return the probabilities to sample from, (V,) → (V,)."""
    scores = np.where(allowed, logits.astype(np.float64), -np.inf)
    scores -= scores.max()
    if sampling.temperature == 0:
        return (np.arange(len(scores)) == scores.argmax()).astype(np.float64)
    if kinds is None or not sampling.by_kind:
        kinds = Kinds(np.zeros(len(scores), np.int64))
    untouched = kinds.of[[*kinds.untouched]]
    whole = {kind: np.exp(scores[kinds.of == kind]).sum() for kind in np.unique(kinds.of)}
    found = np.zeros(len(scores))
    for kind, chance in whole.items():
        if chance > 0 and chance >= sampling.min_p * max(whole.values()):
            own = kinds.of == kind
            found[own] = chance * _shares(
                scores[own], Sampling() if kind in untouched else sampling
            )
    return found / found.sum()


def _shares(scores: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Return the shares of the tokens of one kind."""
    with np.errstate(over="ignore"):  # near temperature 0, all but the most probable go to −∞
        shares = np.exp((scores - scores.max()) / sampling.temperature)
    shares /= shares.sum()
    if (most := sampling.top_k) is not None:
        shares = _most_probable(shares, lambda _, rank: rank < most)
        shares /= shares.sum()
    if sampling.top_p < 1:  # Holtzman et al. 2020, section 3.1
        shares = _most_probable(shares, lambda before, _: before < sampling.top_p)
    shares = np.where(shares >= sampling.min_p * shares.max(), shares, 0)
    return shares / shares.sum()


def _most_probable(
    shares: np.ndarray, keeps: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Zero all but the most probable tokens: by the share of those before each, and by their number; ties are kept."""
    descending = -np.sort(-shares)
    kept = keeps(descending.cumsum() - descending, np.arange(len(shares)))
    return np.where(shares >= descending[kept].min(), shares, 0)


def draw(chances: np.ndarray, uniform: float) -> int:
    """Draw a token at a number in [0, 1)."""
    rising = chances.cumsum()
    goal = min(uniform * rising[-1], np.nextafter(rising[-1], 0))  # the product may round up
    return int((rising <= goal).sum())
