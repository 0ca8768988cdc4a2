from pathlib import Path

import pytest

from training.loop import TABLES, Log
from training.validation import Measured

MEASURED = Measured(
    inside=2.0, beyond=None, sequences=3, rows=[(0, 8, 2.5, 0.1, 3), (8, 16, 1.5, 0.2, 3)]
)


def log_until(folder: Path, first: int, last: int) -> None:
    log = Log(folder, first, enabled=True)
    for step in range(first + 1, last + 1):
        log.train(
            step=step, loss=10 - step, learning_rate=0.1, gradient_norm=1.0,
            tokens_per_second=5.0, loader_share=0.0,
        )  # fmt: skip
        log.validation(step, MEASURED)
    log.close()


def tables(folder: Path) -> dict[str, str]:
    return {name: (folder / f"{name}.csv").read_text() for name in TABLES}


def test_tables_have_a_header_and_a_row_a_record(tmp_path: Path):
    log_until(tmp_path, 0, 2)
    found = tables(tmp_path)
    assert found["train"].splitlines()[0].split(",") == list(TABLES["train"])
    assert found["train"].splitlines()[1:] == ["1,9,0.1,1.0,5.0,0.0", "2,8,0.1,1.0,5.0,0.0"]
    assert found["validation"].splitlines()[1] == "1,2.0,,3"
    assert found["positions"].splitlines()[-1] == "2,8,16,1.5,0.2,3"
    assert list((tmp_path / "tensorboard").iterdir())


def test_on_resuming_rows_after_the_checkpoint_are_dropped(tmp_path: Path):
    log_until(tmp_path / "whole", 0, 6)
    log_until(tmp_path / "cut", 0, 5)  # of which the last checkpoint knows 3
    log_until(tmp_path / "cut", 3, 6)
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")


def test_a_line_torn_by_a_crash_is_dropped(tmp_path: Path):
    log_until(tmp_path / "whole", 0, 4)
    log_until(tmp_path / "torn", 0, 3)
    with (tmp_path / "torn" / "train.csv").open("a") as file:
        file.write("1")  # of a row of step 12, say: not one of step 1
    log_until(tmp_path / "torn", 3, 4)
    assert tables(tmp_path / "torn") == tables(tmp_path / "whole")


@pytest.mark.parametrize("damage", [b"\xff\n", b"many,2\n", b'"' + b"1" * 200_000 + b"\n"])
def test_a_table_that_is_damaged_is_named(damage: bytes, tmp_path: Path):
    log_until(tmp_path, 0, 1)
    path = tmp_path / "train.csv"
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(ValueError, match=str(path)):
        Log(tmp_path, 1, enabled=True)


def test_only_the_first_process_writes(tmp_path: Path):
    log = Log(tmp_path / "none", 0, enabled=False)
    log.validation(1, MEASURED)
    log.close()
    assert not (tmp_path / "none").exists()
