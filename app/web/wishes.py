"""What the controls of the page and the numbers of a request mean, and how errors are told."""

from __future__ import annotations

import math

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
        _check_number(name, number)
    sampling = Sampling(
        temperature=float(temperature),
        top_p=float(top_p),
        top_k=int(top_k) or None,
        min_p=float(min_p),
    )
    return Wish(bars=int(bars), variations=int(variations), seed=int(seed), sampling=sampling)


def whole(name: str, number: object) -> int:
    """Return a number of a request as a whole one."""
    return int(_check_number(name, number))


def _check_number(name: str, number: object) -> float:
    if number is None:
        raise ValueError(f"{name} is empty; it is a number")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{name} is no number, but {str(number)[:40]!r}")
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; it is a number with an end")
    return number


def sentence(error: object) -> str:
    """Return an error as a sentence."""
    return wording.sentence(str(error))
