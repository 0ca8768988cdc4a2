"""Which way of multiplying few rows this machine takes for which shape: measured once, then stored.

The ways differ in the last bit of their results, so the choice is part of what makes the same request the same music:
it may not turn round with the noise of a measurement. It is stored in the user's cache folder, one file for each set of
processor, libraries and number of threads; whoever stores first is followed by all others. Where nothing can be stored
the times do not count: the first of the ways that treat rows alike is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from musicgen.common.machine import abilities, cache_folder

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
