"""What the page and programs ask for in plain values, checked, and how errors are told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from musicgen.generation.sampling import Sampling
from musicgen.options import Options
from tokenization import wording
from tokenization.remi.chord_line import read_chords

MOST_BARS = 128
MOST_VARIATIONS = 8
KINDS = ("continue", "infill", "accompany")
LONGEST_CHORDS = 2000  # letters


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is to be written to a piece, by which model and how."""

    kind: str
    model: str
    options: Options
    title: str = ""
    prompt_bars: int | None = None  # of what is continued; None for all
    first: int = 1  # of the bars to be written anew
    last: int = 1
    parts: tuple[str, ...] = ()  # to be written to the others
    dense: int = 0  # of more attempts than are shown, −1 the sparsest and 1 the densest are


def wished(
    bars: float,
    variations: float,
    temperature: float,
    top_p: float,
    top_k: float,
    min_p: float,
    seed: float,
    ends: bool = False,
    chords: str = "",
) -> Options:
    """Return options from plain values; 0 is no limit for top-k, no chords are all chords."""
    numbers = {"bars": bars, "variations": variations, "temperature": temperature, "top_p": top_p,
               "top_k": top_k, "min_p": min_p, "seed": seed}  # fmt: skip
    for name, number in numbers.items():
        (_check_number if name in ("temperature", "top_p", "min_p") else whole)(name, number)
    sampling = Sampling(
        temperature=float(temperature),
        top_p=float(top_p),
        top_k=int(top_k) or None,
        min_p=float(min_p),
    )
    line = str(chords or "").strip()
    if len(line) > LONGEST_CHORDS:
        raise ValueError(f"the chords take {len(line)} letters; {LONGEST_CHORDS} are read")
    options = Options(
        bars=int(bars),
        variations=int(variations),
        seed=int(seed),
        sampling=sampling,
        ends=bool(ends),
        chords=read_chords(line) if line else None,
    )
    check(options)
    return options


def check(options: Options) -> None:
    """Refuse what would keep the machine too long from others."""
    if not 1 <= options.bars <= MOST_BARS:
        raise ValueError(
            f"{options.bars} bars were asked for; 1 to {MOST_BARS} can be had at a time"
        )
    if not 1 <= options.variations <= MOST_VARIATIONS:
        raise ValueError(
            f"{options.variations} variations were asked for; 1 to {MOST_VARIATIONS} can be had"
        )


def asked(plain: Any) -> Ask:
    """Return what the page asks for; it sends one object with names and values."""
    if not isinstance(plain, Mapping):
        raise ValueError("what is to be written is no object with names and values")
    given = dict(plain)
    names = ("bars", "variations", "temperature", "topP", "topK", "minP", "seed")
    if missing := [name for name in names if name not in given]:
        raise ValueError(f"{wording.listed(missing)} is not said; say all of {', '.join(names)}")
    kind = str(given.get("kind", "continue"))
    if kind not in KINDS:
        raise ValueError(f"that cannot be done to a piece; {wording.listed(KINDS)} can")
    options = wished(
        *(given[name] for name in names),
        ends=bool(given.get("ends")),
        chords=str(given.get("chords") or ""),
    )
    ask = Ask(kind=kind, model=str(given.get("model") or ""), options=options)
    ask = replace(ask, title=str(given.get("title") or "")[:80])
    if kind == "continue":
        bars = given.get("promptBars")
        dense = max(-1, min(1, whole("dense", given.get("dense", 0))))
        first = None if bars is None else whole("promptBars", bars)
        return replace(ask, prompt_bars=first, dense=dense)
    if kind == "infill":
        return replace(
            ask, first=whole("first", given.get("first")), last=whole("last", given.get("last"))
        )
    parts = given.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not 1 <= len(parts) <= 8:
        raise ValueError("parts is a list of the parts to write")
    return replace(ask, parts=tuple(str(part)[:40] for part in parts))


def whole(name: str, number: object) -> int:
    """Return a number of a request that has to be a whole one."""
    if (found := _check_number(name, number)) != int(found):
        raise ValueError(f"{name} is {found}; it is a whole number")
    return int(found)


def _check_number(name: str, number: object) -> float:
    if number is None:
        raise ValueError(f"{name} is empty; it is a number")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{name} is no number")
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; it is a number with an end")
    return number


def sentence(error: object) -> str:
    """Return an error as a sentence."""
    return wording.sentence(str(error))
