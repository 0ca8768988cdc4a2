"""A prepared set appears whole or not at all, and replaces another only on request."""

import errno
import os
from pathlib import Path

import pytest

import training.data.prepare
from tests.tokenization.test_prepared import META, row, write
from tokenization.prepared import META_FILE, Prepared
from training.data.prepare import PreparedWriter, check_destination


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_set_is_replaced_only_on_request(tmp_path: Path):
    before = contents(write(tmp_path / "set"))
    with pytest.raises(ValueError, match=r"holds a prepared data set of 8 tokens; .* --force"):
        write(tmp_path / "set", shift=1)
    assert contents(tmp_path / "set") == before
    write(tmp_path / ".set.old")  # which a killed run left
    write(tmp_path / "set", shift=1, replace=True)
    assert Prepared.open(tmp_path / "set").ids(0).tolist() == [2, 2, 3]
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_interruption_leaves_the_old_set_and_no_trace(tmp_path: Path, error: type[BaseException]):
    def write_and_stop() -> None:
        with PreparedWriter(tmp_path / "set", replace=True) as writer:
            writer.add("a", [row(9, 9)], split="train")
            raise error

    before = contents(write(tmp_path / "set"))
    with pytest.raises(error):
        write_and_stop()
    assert contents(tmp_path / "set") == before
    assert os.listdir(tmp_path) == ["set"]


def test_leavings_of_a_killed_run_are_cleared_and_its_old_set_comes_back(tmp_path: Path):
    before = contents(write(tmp_path / "set"))
    (tmp_path / "set").rename(tmp_path / ".set.old")
    (tmp_path / ".set.part").mkdir()
    (tmp_path / ".set.part" / "tokens.bin").write_bytes(bytes(1000))
    (tmp_path / ".set.part" / "junk").touch()
    with pytest.raises(ValueError, match="already holds"):
        write(tmp_path / "set")
    assert contents(tmp_path / "set") == before
    write(tmp_path / "set", replace=True)
    assert contents(tmp_path / "set") == before
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("replace", [True, False])
def test_foreign_folder_or_file_is_never_written_to(tmp_path: Path, replace: bool):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not empty and holds no prepared data set"):
        write(tmp_path, replace=replace)
    with pytest.raises(ValueError, match=r"thesis\.tex is a file; give a folder"):
        write(tmp_path / "thesis.tex", replace=replace)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / META_FILE).write_text('{"format": "another program\'s"}')
    with pytest.raises(ValueError, match="holds no prepared data set"):
        check_destination(tmp_path, replace=True)


def test_two_runs_at_once_do_not_mix_and_notices_go_beside_the_set(tmp_path: Path):
    (tmp_path / "LICENSE.txt").write_text("MIT")
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        writer.add("a", [row(1)], split="train")
        with pytest.raises(ValueError, match=r"another run is writing .*set"):
            write(tmp_path / "set")
        writer.commit(META, [(tmp_path / "LICENSE.txt", "LICENSE")])
    assert len(Prepared.open(tmp_path / "set")) == 1
    assert (tmp_path / "set" / "LICENSE").read_text() == "MIT"


@pytest.mark.parametrize("when", ["at first", "at the last moment"])
def test_full_disk_is_one_sentence_and_changes_nothing(tmp_path: Path, when: str, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = contents(write(tmp_path / "set"))
    if when == "at first":
        monkeypatch.setattr(training.data.prepare, "TOKENS_FILE", "/dev/full")
    else:
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"is full; free some space, or .*nothing was changed"):
        write(tmp_path / "set", replace=True)
    assert contents(tmp_path / "set") == before
    assert os.listdir(tmp_path) == ["set"]
