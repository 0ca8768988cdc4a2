"""The log of a run: sums over steps, CSV tables, and TensorBoard."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tokenization.whole_file import is_text, write_whole
from training.validation import Measured


def _clocks() -> np.ndarray:
    """Return the wall-clock time and this process's processor time: (2,) seconds."""
    return np.array([time.perf_counter(), time.process_time()])


class StepSums:
    """Sums over the steps since the last log, kept on the device so that no step waits for it.

    They are those of loss, gradient norm, tokens and steps. The first step with a non-finite value is kept, too.
    """

    def __init__(self, device: torch.device, sums: Sequence[float] = ()) -> None:
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self._device = device
        self._bad = torch.full((), torch.inf, device=device)
        self.restart(sums)

    def restart(self, sums: Sequence[float] = ()) -> None:
        """Begin at zero or with saved sums."""
        loss, gradient, tokens, steps = sums or (0.0,) * 4
        self._loss, self._gradient = (
            torch.tensor(value, dtype=self._dtype, device=self._device)
            for value in (loss, gradient)
        )
        self._tokens, self._steps = int(tokens), int(steps)
        self._new_tokens, self._began = 0, _clocks()

    def add(self, loss: Tensor, tokens: int, step: int) -> None:
        """Add the summed loss of some tokens of a step."""
        self._loss = self._loss + loss
        self._tokens += tokens
        self._new_tokens += tokens
        self._watch(loss, step)

    def add_norm(self, norm: Tensor, step: int) -> None:
        """Add the gradient norm of a step."""
        self._steps += 1
        self._gradient = self._gradient + norm
        self._watch(norm, step)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time within from the speed."""
        began = _clocks()
        yield
        self._began += _clocks() - began

    def total(self) -> Tensor:
        """Return the sums of loss, gradient norms, tokens and steps: (4,)."""
        counts = torch.tensor([self._tokens, self._steps], dtype=self._dtype, device=self._device)
        return torch.cat([torch.stack([self._loss, self._gradient]), counts])

    def speed(self) -> tuple[int, float, float]:
        """Return the tokens trained on in this session since the last log, the seconds, and the processor seconds."""
        seconds, processor = (_clocks() - self._began).tolist()
        return self._new_tokens, seconds, processor

    def first_bad_step(self) -> int | None:
        """Return the first step whose loss or gradient was not finite; waits for the device."""
        bad = self._bad.item()
        return None if bad == torch.inf else int(bad)

    def _watch(self, value: Tensor, step: int) -> None:
        self._bad = torch.where(torch.isfinite(value), self._bad, self._bad.clamp(max=float(step)))


TRAIN = (
    *("step", "loss", "learning_rate", "gradient_norm", "tokens_per_second", "processor_seconds"),
)
VALIDATION = ("step", "inside", "beyond", "sequences")
BY_POSITION = ("step", "from", "to", "loss", "deviation", "n")
TABLES = {"train": TRAIN, "validation": VALIDATION, "positions": BY_POSITION}


class Log:
    """Appends to the run's CSV tables and, if it is installed, to a TensorBoard log.

    Rows after `step`, which a crash or a tail left behind, are dropped first.
    """

    def __init__(self, folder: Path, step: int, *, enabled: bool) -> None:
        self.folder, self.enabled = folder, enabled
        self.board: Any = None
        if not enabled:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, header in TABLES.items():
            _cut(folder / f"{name}.csv", header, step)
        if find_spec("tensorboard") and is_text(folder):
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def train(self, **values: float) -> None:
        """Record the training steps since the last record."""
        self._append("train", [[values[name] for name in TRAIN]])
        for name in TRAIN[1:]:
            self._scalar(f"train/{name}", values[name], int(values["step"]))

    def validation(self, step: int, result: Measured) -> None:
        """Record a validation: mean losses, and losses by position."""
        beyond = "" if result.beyond is None else result.beyond
        self._append("positions", [[step, *row] for row in result.rows])
        self._append("validation", [[step, result.inside, beyond, result.sequences]])
        self._scalar("validation/inside", result.inside, step)
        if result.beyond is not None:
            self._scalar("validation/beyond", result.beyond, step)

    def close(self) -> None:
        """Flush the TensorBoard log."""
        if self.board is not None:
            self.board.close()

    def _append(self, table: str, rows: list[list[Any]]) -> None:
        if self.enabled:
            with (self.folder / f"{table}.csv").open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)

    def _scalar(self, name: str, value: float, step: int) -> None:
        if self.board is not None:
            self.board.add_scalar(name, value, step)


def _cut(path: Path, header: tuple[str, ...], step: int) -> None:
    """Drop the rows after `step`; create the table if it is missing."""
    try:
        text = path.read_text() if path.exists() else ""
        complete = text[: text.rfind("\n") + 1]  # a crash may have cut off the last line
        table = csv.DictReader(complete.splitlines())
        rows = [row for row in table if int(row["step"]) <= step]
    except (ValueError, KeyError, csv.Error) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it to continue the run") from None
    stream = io.StringIO()
    # Tables of earlier versions can have other columns.
    writer = csv.DictWriter(stream, header, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, stream.getvalue().encode())
