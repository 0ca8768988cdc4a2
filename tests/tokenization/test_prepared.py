import pickle
from pathlib import Path

import numpy as np
import pytest

from tokenization.language import Encoded
from tokenization.prepared import META_FILE, PIECES_FILE, TOKENS_FILE, Prepared
from training.data.writer import PreparedWriter

NUMBERS = [str(number) for number in range(65536)]
META = {"source": {}, "language": {"language": "numbers", "tokens": len(NUMBERS)}}


def row(*ids: int, bars: tuple[int, ...] = (0,)) -> Encoded:
    return Encoded(ids=np.array(ids, dtype=np.uint16), bars=np.array(bars), notes=len(ids))


def write(folder: Path, *, replace: bool = False, shift: int = 0) -> Path:
    with PreparedWriter(folder, replace=replace) as writer:
        writer.add("a", [row(1 + shift, 2, 3, bars=(0, 2)), row(4, 5)], split="train", style="s")
        writer.add("b", [row(65535, bars=())], split="validation")
        writer.add("ü", [row(7, 8)], split="test", style="t")
        writer.commit(META)
    return folder


def test_rows_are_read_as_they_were_written(tmp_path: Path):
    prepared = Prepared.open(write(tmp_path / "set"))
    ids = [prepared.ids(r).tolist() for r in range(len(prepared))]
    assert ids == [[1, 2, 3], [4, 5], [65535], [7, 8]]
    assert [prepared.bars(r).tolist() for r in range(4)] == [[0, 2], [0], [], [0]]
    assert [prepared.name(r) for r in range(4)] == ["a", "a", "b", "ü"]
    assert prepared.pieces.style.tolist() == [0, 0, -1, 1]
    assert prepared.meta["styles"] == ["s", "t"]
    rows = [prepared.rows(split).tolist() for split in ("train", "validation", "test")]
    assert rows == [[0, 1], [2], [3]]
    counts = {"files": 1, "pieces": 2, "tokens": 5, "bars": 3, "notes": 5}
    assert prepared.meta["counts"]["train"] == counts
    prepared.verify()


def test_tokens_are_memory_mapped_also_in_another_process(tmp_path: Path):
    prepared = Prepared.open(write(tmp_path / "set"))
    assert isinstance(prepared.tokens, np.memmap)
    data = pickle.dumps(prepared)
    assert len(data) < 1000
    assert isinstance(pickle.loads(data).tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        prepared.ids(0)[0] = 9


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        (META_FILE, None, r"is not a prepared data set: it has no meta\.json"),
        (META_FILE, b"\x00", r"meta\.json is not the description of a prepared"),
        (META_FILE, b'{"format": 1}', r"meta\.json is not the description of a prepared"),
        (META_FILE, b'{"format": 2}', "has format 2, but this program reads format 1"),
        (TOKENS_FILE, None, r"tokens\.bin has 0 bytes but needs 16"),
        (TOKENS_FILE, bytes(17), r"tokens\.bin has 17 bytes but needs 16"),
        (TOKENS_FILE, bytes(16), r"tokens\.bin is damaged: its checksum"),
        (PIECES_FILE, None, r"pieces\.npz is missing or damaged"),
        (PIECES_FILE, b"not a zip file", r"pieces\.npz is missing or damaged"),
    ],
)
def test_a_missing_or_damaged_file_is_named(file: str, data: bytes | None, message: str, tmp_path):
    path = write(tmp_path / "set") / file
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        Prepared.open(tmp_path / "set").verify()


def test_the_error_names_a_missing_folder(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"no prepared data set .*nowhere"):
        Prepared.open(tmp_path / "nowhere")
