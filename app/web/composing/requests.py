"""A request for music: what the page and programs send as plain values, checked, and how errors are told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from musicgen.generation.sampling import MUSICAL, Sampling
from musicgen.options import Options
from tokenization import wording
from tokenization.remi.chord_line import read_chords

MOST_BARS = 128  # to continue; a gap is bounded by its goal, parts by the piece
MOST_REST = 128  # empty bars in front of a piece: no bound on what is asked for
MOST_VARIATIONS = 8
KINDS = ("continue", "infill", "accompany")
LONGEST_CHORDS = 2000  # letters


@dataclass(frozen=True, kw_only=True)
class MusicRequest:
    """What is to be written to a piece, by which model and how."""

    kind: str
    model: str
    options: Options
    title: str = ""
    prompt_bars: int | None = None  # of what is continued; None for all
    rest: int = 0  # bars in front that are empty on the page, and count as bars there
    first: int = 1  # of the bars to be written anew
    last: int = 1
    parts: tuple[str, ...] = ()  # to be written to the others
    dense: int = 0  # of more attempts than are shown, −1 the sparsest and 1 the densest are


class SamplingValues(NamedTuple):
    """How notes are drawn, as plain values that came from outside; endpoints for programs take them in this order."""

    temperature: float
    top_p: float
    top_k: int  # 0 for no limit
    min_p: float
    seed: int
    recall: float = MUSICAL.recall  # which came later: programs do not say it

    def checked(self) -> Sampling:
        """Return them for a model; a value that is not a number is refused."""
        for name, value in self._asdict().items():
            (whole if name in ("top_k", "seed") else _check_number)(name, value)
        return Sampling(
            temperature=float(self.temperature),
            top_p=float(self.top_p),
            top_k=int(self.top_k) or None,
            min_p=float(self.min_p),
            recall=float(self.recall),
        )


SAMPLING = [name for name in SamplingValues._fields if name not in SamplingValues._field_defaults]
"""What has to be said of it."""


def options_from(
    *,
    bars: float,
    variations: float,
    sampling: SamplingValues,
    ends: bool = False,
    chords: str = "",
) -> Options:
    """Return options from plain values; no chords are all chords."""
    bars, variations = whole("bars", bars), whole("variations", variations)
    drawn = sampling.checked()
    line = str(chords or "").strip()
    if len(line) > LONGEST_CHORDS:
        raise ValueError(f"the chords take {len(line)} letters; {LONGEST_CHORDS} are read")
    options = Options(
        bars=bars,
        variations=variations,
        seed=int(sampling.seed),
        sampling=drawn,
        ends=bool(ends),
        chords=read_chords(line) if line else None,
    )
    check(options)
    return options


def check(options: Options) -> None:
    """Refuse what would keep the machine too long from others."""
    if not 1 <= options.bars <= MOST_BARS:
        raise ValueError(
            f"{options.bars} bars were asked for; 1 to {MOST_BARS} can be asked for at a time"
        )
    if not 1 <= options.variations <= MOST_VARIATIONS:
        raise ValueError(
            f"{options.variations} variations were asked for; at most {MOST_VARIATIONS} can be"
        )


def request_from(plain: Any) -> MusicRequest:
    """Return what the page asks for; it sends one object with names and values."""
    if not isinstance(plain, Mapping):
        raise ValueError("what is to be written is not an object with names and values")
    given = dict(plain)
    names = ("bars", "variations", "sampling")
    _check_names("", given, names)
    sampling = given["sampling"]
    if not isinstance(sampling, Mapping):
        raise ValueError("sampling is not an object with names and values")
    _check_names("of sampling, ", sampling, SAMPLING)
    kind = str(given.get("kind", "continue"))
    if kind not in KINDS:
        raise ValueError(f"that cannot be done to a piece; {wording.listed(KINDS)} can")
    options = options_from(
        bars=given["bars"],
        variations=given["variations"],
        sampling=SamplingValues(
            **{name: sampling[name] for name in SamplingValues._fields if name in sampling}
        ),
        ends=bool(given.get("ends")),
        chords=str(given.get("chords") or ""),
    )
    request = MusicRequest(kind=kind, model=str(given.get("model") or ""), options=options)
    rest = max(0, min(MOST_REST, whole("rest", given.get("rest", 0))))
    request = replace(request, title=str(given.get("title") or "")[:80], rest=rest)
    if kind == "continue":
        bars = given.get("promptBars")
        dense = max(-1, min(1, whole("dense", given.get("dense", 0))))
        first = None if bars is None else whole("promptBars", bars)
        return replace(request, prompt_bars=first, dense=dense)
    if kind == "infill":
        return replace(
            request, first=whole("first", given.get("first")), last=whole("last", given.get("last"))
        )
    parts = given.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not 1 <= len(parts) <= 8:
        raise ValueError("parts is a list of the parts to write")
    return replace(request, parts=tuple(str(part)[:40] for part in parts))


def _check_names(where: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in given]:
        raise ValueError(
            f"{where}{wording.listed(missing)} is not said; say all of {', '.join(names)}"
        )


def whole(name: str, number: object) -> int:
    """Return a number of a request that has to be a whole one."""
    if (found := _check_number(name, number)) != int(found):
        raise ValueError(f"{name} is {found}; it must be a whole number")
    return int(found)


def _check_number(name: str, number: object) -> float:
    if number is None:
        raise ValueError(f"{name} is empty; it must be a number")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{name} is not a number")
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; it must be finite")
    return number
