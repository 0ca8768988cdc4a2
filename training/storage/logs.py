"""The records of a run: CSV always, TensorBoard where it is installed and can take the folder's name."""

from __future__ import annotations

import csv
import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenization.whole_file import is_text, write_whole
from training.validation import Measured

TRAIN = ("step", "loss", "learning_rate", "gradient_norm", "tokens_per_second", "loader_share")
VALIDATION = ("step", "inside", "beyond", "sequences")
BY_POSITION = ("step", "from", "to", "loss", "deviation", "n")
TABLES = {"train": TRAIN, "validation": VALIDATION, "positions": BY_POSITION}


class Log:
    """Appends to the run's tables; rows from after `step`, which a crash left, are dropped first."""

    def __init__(self, folder: Path, step: int, *, enabled: bool) -> None:
        self.enabled = enabled
        self.board: Any = None
        self.move(folder, step)

    def move(self, folder: Path, step: int) -> None:
        """Write to the tables of another folder from here on."""
        self.close()
        self.folder = folder
        if not self.enabled:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, header in TABLES.items():
            _cut(folder / f"{name}.csv", header, step)
        if find_spec("tensorboard") and is_text(folder):
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def train(self, **values: float) -> None:
        """Record a stretch of training steps."""
        self._append("train", [[values[name] for name in TRAIN]])
        for name in TRAIN[1:]:
            self._scalar(f"train/{name}", values[name], int(values["step"]))

    def validation(self, step: int, result: Measured) -> None:
        """Record a validation: the means, and the loss by position."""
        beyond = "" if result.beyond is None else result.beyond
        self._append("positions", [[step, *row] for row in result.rows])
        self._append("validation", [[step, result.inside, beyond, result.sequences]])
        self._scalar("validation/inside", result.inside, step)
        if result.beyond is not None:
            self._scalar("validation/beyond", result.beyond, step)

    def close(self) -> None:
        """Write down what is buffered."""
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
    """Keep the whole rows up to `step`; an absent table gets its header."""
    try:
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a crash may have torn the last line
        rows = [row for row in csv.reader(whole.splitlines()[1:]) if row and int(row[0]) <= step]
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it, and the run goes on") from None
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    write_whole(path, stream.getvalue().encode())
