"""A prepared set is written whole or not at all, and replaces another only on request."""

import errno
import os
from pathlib import Path

import pytest

import training.data.prepare
from tests.tokenization.test_prepared import META, row, write
from tests.training.makers import contents
from tokenization.prepared import META_FILE, Prepared
from training.data.prepare import PreparedWriter, check_destination


def test_set_is_replaced_only_on_request_and_remains_are_removed(tmp_path: Path):
    before = contents(write(tmp_path / "set"))
    with pytest.raises(ValueError, match=r"holds a prepared data set of 8 tokens; .* --force"):
        write(tmp_path / "set", shift=1)
    assert contents(tmp_path / "set") == before
    write(tmp_path / ".set.old")  # left by a killed program, as is the next
    (tmp_path / ".set.part").mkdir()
    (tmp_path / ".set.part" / "tokens.bin").write_bytes(bytes(1000))
    (tmp_path / ".set.part" / "junk").touch()
    write(tmp_path / "set", shift=1, replace=True)
    assert Prepared.open(tmp_path / "set").ids(0).tolist() == [2, 2, 3]
    assert os.listdir(tmp_path) == ["set"]


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt(), FULL, None])
def test_failure_leaves_the_old_set_and_no_trace(tmp_path: Path, error, monkeypatch):
    """It fails at the last moment, when the set is synced to disk, or at the first token, on a full disk."""

    def fail(descriptor: int) -> None:
        raise error

    before = contents(write(tmp_path / "set"))
    if error is None:
        monkeypatch.setattr(training.data.prepare, "TOKENS_FILE", "/dev/full")
    else:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error or FULL)) as raised:
        write(tmp_path / "set", replace=True)
    if isinstance(raised.value, OSError):
        assert "is full; free some space, or " in str(raised.value)
        assert "nothing was changed" in str(raised.value)
    assert contents(tmp_path / "set") == before
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("replace", [True, False])
def test_other_folders_and_files_are_never_written_to(tmp_path: Path, replace: bool):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not empty and holds no prepared data set"):
        write(tmp_path, replace=replace)
    with pytest.raises(ValueError, match=r"thesis\.tex is a file; choose a folder"):
        write(tmp_path / "thesis.tex", replace=replace)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / META_FILE).write_text('{"format": "another program\'s"}')
    with pytest.raises(ValueError, match="holds no prepared data set"):
        check_destination(tmp_path, replace=True)


def test_concurrent_writers_are_refused_and_the_licence_is_copied(tmp_path: Path):
    (tmp_path / "LICENSE.txt").write_text("MIT")
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        writer.add("a", [row(1)], split="train")
        with pytest.raises(ValueError, match=r"another program is writing .*set"):
            write(tmp_path / "set")
        writer.commit(META, tmp_path / "LICENSE.txt")
    assert len(Prepared.open(tmp_path / "set")) == 1
    assert (tmp_path / "set" / "LICENSE").read_text() == "MIT"
