"""Products of few rows with a matrix, by the fastest way on this machine that computes each row as if it were alone.

A generated token multiplies 1 to 8 rows, one a variation, by every matrix of the model; more rows go in groups of 8,
or in one product where this machine computes that as it does the groups.
There are several ways to compute that product (multiplications.py), and their speeds differ by up to ten times and rank
differently on each processor; some add a row up in another order when it has company, so that a variation would depend
on how many others are made. So the ways are tried, once a machine and shape: those that treat rows alike are timed, and
the fastest is stored. With always eight rows, most of them of no meaning, every way treats rows
alike by construction.

I width of the input, O width of the output.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from musicgen.common.machine import abilities, cache_folder
from musicgen.layers.multiplications import (
    LOOPS,
    MOST,
    WAYS,
    Product,
    codes_if_stored_so,
    possible,
    quantise,
    restore,
)

# Which way of multiplying few rows this machine takes for which shape: measured once, then stored.
#
# The ways differ in the last bit of their results, so the choice is part of what makes the same request the same
# music: it may not turn round with the noise of a measurement. It is stored in the user's cache folder, one file for
# each set of processor, libraries and number of threads; whoever stores first is followed by all others. Where
# nothing can be stored the times do not count: the first of the ways that treat rows alike is taken.

Choice = tuple[str, int]  # a way and its multiple of rows
Trial = Callable[[], tuple[list[Choice], Choice]]
"""Returns every choice that is right, and the fastest one."""

_TRIAL = 4  # changes with how ways are compared: what an earlier program found is not followed then
# Variables that change what libraries do.
_SETTINGS = ("ATEN_", "DNNL_", "MKL_", "MUSICGEN_", "NUMBA_", "OMP_", "ONEDNN_")
_chosen: dict[tuple[int, str], Choice] = {}  # by number of threads, and kind of matrix


def stored(shape: tuple[int, int], coded: bool, trial: Trial) -> Choice:
    """Return the choice for a shape, and for matrices that have 8-bit codes or not, tried and stored if it was not."""
    threads, kind = torch.get_num_threads(), f"{shape[0]}x{shape[1]}{'-8' * coded}"
    if (threads, kind) not in _chosen:
        file = cache_folder() / "few-rows" / _machine(threads) / f"{kind}.json"
        _chosen[threads, kind] = _read_or_try(file, trial)
    return _chosen[threads, kind]


def _read_or_try(file: Path, trial: Trial) -> Choice:
    choice = _read(file)
    if choice is not None:
        return choice
    right, fastest = trial()
    try:
        if not file.is_absolute():  # of who has no home
            raise FileNotFoundError(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_if_absent(file, fastest)
    except OSError:
        return right[0]
    return _read(file) or right[0]


def _read(file: Path) -> Choice | None:
    try:
        choice = json.loads(file.read_bytes())
        way, multiple = choice["way"], choice["multiple"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return (way, multiple) if isinstance(way, str) and isinstance(multiple, int) else None


def _write_if_absent(file: Path, choice: Choice) -> None:
    """Write a file that is whole from its first moment, unless another process was faster."""
    way, multiple = choice
    with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part") as written:
        json.dump({"way": way, "multiple": multiple}, written)
        written.flush()
        if file.exists() and _read(file) is None:  # damaged, as by a loss of power
            file.unlink(missing_ok=True)
        with suppress(FileExistsError):
            os.link(written.name, file)


@cache
def _machine(threads: int) -> str:
    """Return a name for all that decides how products are computed."""
    settings = sorted(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
    facts = [
        abilities(), torch.__version__, torch.backends.cpu.get_cpu_capability(), sys.platform, threads, settings,
        _TRIAL,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


AT_ONCE = 64  # rows at most that go in one product where that is seen to come to the same as groups of eight
MULTIPLES = (2, 4, 8)  # of rows; with the last one, their number never changes


class Way(NamedTuple):
    """A way to multiply, and of what the number of rows has to be a multiple for rows to be treated alike."""

    name: str
    multiple: int


def rows_for(batch: int, multiples: Iterable[int]) -> int:
    """Return how many rows to multiply so that a batch of so many is computed as each of its rows alone."""
    multiple = max(multiples)
    return -(-batch // multiple) * multiple


def way_for(weight: Tensor) -> Way:
    """Return the way for a matrix (O, I) on its device."""
    if weight.device.type != "cpu":
        return Way("rows", 1)
    if weight.dtype != torch.float32:
        return Way("rows", MOST)
    out_width, width = weight.shape
    coded = codes_if_stored_so(weight) is not None
    way = Way(*stored((out_width, width), coded, lambda: _fastest(out_width, width, coded)))
    right = way.multiple in ((1,) if way.name in LOOPS else MULTIPLES)
    return way if way.name in possible(weight.numel(), coded) and right else Way("rows", MOST)


def product(weight: Tensor, bias: Tensor | None, out: Tensor) -> Product:
    """Return a function of (rows, I) that writes to `out` its product with a matrix (O, I), plus a bias."""
    name, multiple = way_for(weight)
    way = partial(WAYS[name], weight, bias)
    if name in LOOPS:
        return way(out)
    plain = weight.dtype == torch.float32 and out.device.type == "cpu"
    if plain and MOST < len(out) <= AT_ONCE:
        out_width, width = weight.shape
        if _goes_at_once(name, multiple, out_width, width, torch.get_num_threads()):
            return way(out)
    return in_groups(way, out)


@cache
def _goes_at_once(name: str, multiple: int, out_width: int, width: int, threads: int) -> bool:
    """Say whether this machine computes more than eight rows in one product as in groups of eight, to the last bit.

    `threads` tells answers apart: torch's number of them is what the products go by.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(AT_ONCE, width, generator=generator)
    weight = torch.randn(out_width, width, generator=generator)
    bias = torch.randn(out_width, generator=generator)
    way = partial(WAYS[name], weight, bias)

    def multiplied(count: int, product_of: Callable[[Tensor], Product]) -> Tensor:
        out = x.new_empty(count, out_width)
        product_of(out)(x[:count])
        return out

    wanted = multiplied(AT_ONCE, partial(in_groups, way))
    counts = range(MOST + multiple, AT_ONCE + 1, multiple)
    return all(torch.equal(multiplied(count, way), wanted[:count]) for count in counts)


def in_groups(way: Callable[[Tensor], Product], out: Tensor) -> Product:
    """Return a way that is made for a few rows as one for any number: 8 rows after the other."""
    if len(out) <= MOST or out.device.type != "cpu":
        return way(out)
    parts = out.split(MOST)
    # Each group begins in memory as the first one does, where a library might ask for that.
    apart = out.shape[1] * MOST % _LINE != 0
    owns = [torch.empty_like(part) if apart else part for part in parts]
    products = [way(own) for own in owns]

    def multiply(x: Tensor) -> None:
        for rows, group in zip(x.split(MOST), products, strict=True):
            group(rows)
        if apart:
            torch.cat(owns, out=out)

    return multiply


@torch.inference_mode()
def _fastest(out_width: int, width: int, coded: bool) -> tuple[list[Choice], Choice]:
    """Return every way with rows enough for it to treat them alike, and the fastest of these."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(out_width, width, generator=generator)
    weight = restore(*quantise(weight)) if coded else weight
    bias = torch.randn(out_width, generator=generator)
    right = []
    for name in possible(weight.numel(), coded):
        way = partial(WAYS[name], weight, bias)
        right.append((name, 1 if name in LOOPS else least_multiple(way, width, out_width)))
    copies = -(-_ALL // weight.numel()) if weight.numel() >= _SMALL else 1
    weights = [weight, *(weight.clone() for _ in range(copies - 1))]
    trials = [
        _Trial(name, multiple, weights, bias, number / len(right))
        for number, (name, multiple) in enumerate(right)
    ]
    for _ in range(_TURNS):
        for trial in trials:
            trial.turn()
    enough = _NEARLY * min(trial.seconds for trial in trials)
    return right, next(w for w, trial in zip(right, trials, strict=True) if trial.seconds <= enough)


def least_multiple(way: Callable[[Tensor], Product], width: int, out_width: int) -> int:
    """Return of what the number of rows has to be a multiple for a row's result to depend on that row alone."""
    x = torch.randn(MOST, width, generator=torch.Generator().manual_seed(0))

    def multiplied(rows: Tensor) -> Tensor:
        out = x.new_empty(len(rows), out_width)
        way(out)(rows)
        return out

    def alike(count: int) -> bool:
        """Say whether so many rows, wherever they stood among all, are computed as they were there."""
        places = [(torch.arange(count) + shift) % MOST for shift in range(MOST)]
        return all(torch.equal(multiplied(x[rows]), among_all[rows]) for rows in places)

    among_all = multiplied(x)
    works = {count: alike(count) for count in range(2, MOST, 2)}
    for multiple in MULTIPLES[:-1]:
        if all(works[count] for count in range(multiple, MOST, multiple)):
            return multiple
    return MOST


_LINE = 16  # numbers of float32 in a line of the cache
_TURNS = 32  # each way keeps its best time, since other programs can only make it slower
_NEARLY = 1.1  # times the best time: then the order of the ways decides and not the noise
_SMALL = 1 << 14  # numbers of a matrix below which a cache holds all the weights of its model
_ALL = 1 << 24  # numbers that no cache holds


class _Trial:
    """The time of one way for a single take, and for two of eight.

    A matrix takes turns with others of its shape, as in a model, whose weights come from afar each time: what is
    fastest in the nearest cache may then take twice as long as another way. All go round at the same pace, each from
    a part of its own on, so that none finds near what another has just read.
    """

    def __init__(
        self, name: str, multiple: int, weights: Sequence[Tensor], bias: Tensor, part: float
    ) -> None:
        out_width, width = weights[0].shape
        x = torch.ones(MOST, width)
        self.runs = []
        for rows, place in ((rows_for(1, [multiple]), part), (MOST, part + 0.5 / len(WAYS))):
            out, first = x.new_empty(rows, out_width), int(place * len(weights))
            turns = [*weights[first:], *weights[:first]]
            self.runs.append(cycle([partial(WAYS[name](w, bias, out), x[:rows]) for w in turns]))
        self.best = [math.inf, math.inf]

    @property
    def seconds(self) -> float:
        return self.best[0] + 2 * self.best[1] / MOST

    def turn(self) -> None:
        """Time both once."""
        for number, runs in enumerate(self.runs):
            run = next(runs)
            began = time.perf_counter()
            run()
            self.best[number] = min(self.best[number], time.perf_counter() - began)
