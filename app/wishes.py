"""What the controls of the page and the numbers of a request mean, and how errors are told."""

from __future__ import annotations

from app.service import Wish
from musicgen.sampling import Sampling
from tokenization import wording


def wished(
    bars: float,
    variations: float,
    temperature: float,
    top_p: float,
    top_k: float,
    min_p: float,
    seed: float,
) -> Wish:
    """Return a wish from plain numbers; 0 is no limit for top-k."""
    numbers = {"bars": bars, "variations": variations, "temperature": temperature, "top_p": top_p,
               "top_k": top_k, "min_p": min_p, "seed": seed}  # fmt: skip
    for name, number in numbers.items():
        if number is None:
            raise ValueError(f"{name} is empty; it is a number")
    sampling = Sampling(
        temperature=float(temperature),
        top_p=float(top_p),
        top_k=int(top_k) or None,
        min_p=float(min_p),
    )
    return Wish(bars=int(bars), variations=int(variations), seed=int(seed), sampling=sampling)


def sentence(error: Exception) -> str:
    """Return an error as a sentence."""
    return wording.sentence(str(error))
