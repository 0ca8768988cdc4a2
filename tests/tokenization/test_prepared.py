import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tokenization.language import Encoded
from tokenization.prepared import META_FILE, PIECES_FILE, TOKENS_FILE, Prepared
from training.data.prepare import PreparedWriter, _save

NUMBERS = [str(number) for number in range(65536)]
META = {
    "source": {},
    "language": {"language": "numbers", "tokens": len(NUMBERS)},
    "vocabulary": [{"name": "number", "start": 0, "stop": len(NUMBERS), "tokens": NUMBERS}],
}


def row(*ids: int, bars: tuple[int, ...] = (0,)) -> Encoded:
    return Encoded(ids=np.array(ids, dtype=np.uint16), bars=np.array(bars), notes=len(ids))


def write(folder: Path, *, replace: bool = False, shift: int = 0) -> Path:
    with PreparedWriter(folder, replace=replace) as writer:
        writer.add("a", [row(1 + shift, 2, 3, bars=(0, 2)), row(4, 5)], split="train", style="s")
        writer.add("b", [row(65535, bars=())], split="validation")
        writer.add("ü", [row(7, 8)], split="test", style="t")
        writer.commit(META)
    return folder


def rewrite_meta(folder: Path, **changes: object) -> None:
    meta = json.loads((folder / META_FILE).read_text())
    (folder / META_FILE).write_text(json.dumps({**meta, **changes}))


def test_what_was_added_is_found_again(tmp_path: Path):
    prepared = Prepared.open(write(tmp_path / "set"))
    assert [prepared.ids(r).tolist() for r in range(len(prepared))] == [
        [1, 2, 3],
        [4, 5],
        [65535],
        [7, 8],
    ]
    assert [prepared.bars(r).tolist() for r in range(4)] == [[0, 2], [0], [], [0]]
    assert [prepared.name(r) for r in range(4)] == ["a", "a", "b", "ü"]
    assert prepared.pieces.style.tolist() == [0, 0, -1, 1]
    assert prepared.meta["styles"] == ["s", "t"]
    assert [prepared.rows(s).tolist() for s in ("train", "validation", "test")] == [
        [0, 1],
        [2],
        [3],
    ]
    counts = {"files": 1, "pieces": 2, "tokens": 5, "bars": 3, "notes": 5}
    assert prepared.meta["counts"]["train"] == counts
    prepared.verify()


def test_a_set_with_a_column_that_there_is_no_more_is_read(tmp_path: Path):
    path = write(tmp_path / "set") / PIECES_FILE
    with np.load(path) as columns:
        older = {**columns, "setting": np.array([b""] * 4)}
    _save(path, older)
    assert len(Prepared.open(tmp_path / "set")) == 4


def test_tokens_are_mapped_not_loaded_also_in_another_process(tmp_path: Path):
    prepared = Prepared.open(write(tmp_path / "set"))
    assert isinstance(prepared.tokens, np.memmap)
    data = pickle.dumps(prepared)
    assert len(data) < 1000
    assert isinstance(pickle.loads(data).tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        prepared.ids(0)[0] = 9


def test_a_split_of_no_name_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="no split 'dev'; there are train, validation, test"):
        Prepared.open(write(tmp_path / "set")).rows("dev")


class TestOpening:
    def test_a_missing_folder(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match=r"no prepared data set .*nowhere"):
            Prepared.open(tmp_path / "nowhere")

    def test_a_foreign_folder(self, tmp_path: Path):
        with pytest.raises(ValueError, match=r"is not a prepared data set: it has no meta\.json"):
            Prepared.open(tmp_path)

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "\x00"])
    def test_a_foreign_description(self, tmp_path: Path, text: str):
        (tmp_path / META_FILE).write_text(text)
        with pytest.raises(ValueError, match=r"meta\.json is not the description of a prepared"):
            Prepared.open(tmp_path)

    def test_what_is_wrong_in_a_description_is_named(self, tmp_path: Path):
        rewrite_meta(write(tmp_path / "set"), styles=["s", 3])
        with pytest.raises(
            ValueError, match=r"prepared data set: meta\.json: styles\[1\] is 3, where a"
        ):
            Prepared.open(tmp_path / "set")

    def test_a_format_of_the_future(self, tmp_path: Path):
        rewrite_meta(write(tmp_path / "set"), format=2)
        with pytest.raises(ValueError, match="has format 2, this program reads format 1"):
            Prepared.open(tmp_path / "set")

    @pytest.mark.parametrize("size", [None, 0, 14, 17])
    def test_tokens_of_another_length(self, tmp_path: Path, size: int | None):
        tokens = write(tmp_path / "set") / TOKENS_FILE
        tokens.unlink() if size is None else tokens.write_bytes(bytes(size))
        with pytest.raises(ValueError, match=rf"tokens\.bin has {size or 0} bytes but needs 16"):
            Prepared.open(tmp_path / "set")

    def test_damaged_tokens(self, tmp_path: Path):
        (write(tmp_path / "set") / TOKENS_FILE).write_bytes(bytes(16))
        with pytest.raises(ValueError, match=r"tokens\.bin is damaged: its checksum"):
            Prepared.open(tmp_path / "set").verify()

    @pytest.mark.parametrize("data", [None, b"", b"PK", b"not a zip file"])
    def test_damaged_pieces(self, tmp_path: Path, data: bytes | None):
        pieces = write(tmp_path / "set") / PIECES_FILE
        pieces.unlink() if data is None else pieces.write_bytes(data)
        with pytest.raises(ValueError, match=r"pieces\.npz is missing or damaged"):
            Prepared.open(tmp_path / "set")

    def test_pieces_of_another_set(self, tmp_path: Path):
        write(tmp_path / "one")
        with PreparedWriter(tmp_path / "two", replace=False) as writer:
            writer.add("a", [row(1)], split="train")
            writer.commit(META)
        (tmp_path / "two" / PIECES_FILE).rename(tmp_path / "one" / PIECES_FILE)
        with pytest.raises(ValueError, match="does not belong to the tokens"):
            Prepared.open(tmp_path / "one")
