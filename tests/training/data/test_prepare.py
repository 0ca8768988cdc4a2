import errno
import json
import os
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import training.data.prepare
from tests.tokenization.test_prepared import META, row, write
from tests.training.data.sources import on_disk as disk
from tests.training.makers import contents
from tokenization.language import language_from_spec
from tokenization.prepared import META_FILE, Prepared
from training.data.prepare import PrepareOptions, prepare
from training.data.sources import SOURCES
from training.data.writer import PreparedWriter, check_destination

HERE = PrepareOptions(workers=0, validation=0.3)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("pop909", disk.pop909),
        ("pop-piano", disk.pop_piano_midi),
        ("pop-piano", disk.pop_piano_events),
        ("groove", disk.groove),
        ("groove", disk.groove2groove),
        ("lieder", disk.lieder),
        ("quartets", disk.quartets),
        ("polish-keyboard", disk.polish_keyboard),
        ("orchestra", disk.orchestra),
        ("open-hymnal", disk.open_hymnal),
        ("madrigals", disk.madrigals),
        ("freedoom", disk.freedoom),
        ("free-music", disk.free_music),
        ("dance-tunes", disk.dance_tunes),
        ("human-drums", disk.human_drums),
        ("groove-songs", disk.groove_songs),
        ("midi", disk.midi_folder),
    ],
)
def test_every_source_gives_valid_tokens(name: str, make, tmp_path: Path):
    make(tmp_path / "source" / "a folder")
    meta = prepare(name, tmp_path / "source", tmp_path / "set", HERE)
    prepared = Prepared.open(tmp_path / "set")
    prepared.verify()
    assert meta == prepared.meta
    assert meta["skipped"] == []
    assert meta["source"]["name"] == name
    language = language_from_spec(meta["language"])
    for number in range(len(prepared)):
        ids = np.asarray(prepared.ids(number))
        assert language.validate(ids) is None
        assert (ids[0], ids[-1]) == (language.begin, language.end)
        assert prepared.bars(number).tolist() == language.bars(ids).tolist()
    assert sum(split["tokens"] for split in meta["counts"].values()) == len(prepared.tokens)


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 3])
def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path, workers: int):
    disk.midi_folder(tmp_path / "source", 9)
    (tmp_path / "source" / "bad.mid").write_bytes(b"bad")
    for number in (0, workers):
        options = PrepareOptions(workers=number)
        prepare("midi", tmp_path / "source", tmp_path / f"set{number}", options)
    assert contents(tmp_path / "set0") == contents(tmp_path / f"set{workers}")


def test_bad_files_are_skipped_and_listed(tmp_path: Path):
    source = disk.midi_folder(tmp_path / "source", 3)
    (source / "empty.mid").touch()
    (source / "song.mp3.mid").write_bytes(b"ID3\x04" + bytes(99))
    shutil.copy(source / "song0.mid", source / "twin.mid")
    done = []
    meta = prepare("midi", source, tmp_path / "set", HERE, lambda *state: done.append(state))
    reasons = {skipped["name"]: skipped["reason"] for skipped in meta["skipped"]}
    assert {*reasons} == {"empty.mid", "song.mp3.mid", "twin.mid"}
    assert reasons["twin.mid"] == "it has the same notes as song0.mid"
    assert str(tmp_path) not in json.dumps(meta)
    assert sum(count["files"] for count in meta["counts"].values()) == 3
    assert done == [(n, 6) for n in range(7)]
    [remark] = [remark for remark in meta["remarks"] if "chords" in remark["example"]]
    assert remark["files"] == 3


def test_file_that_crashes_its_reader_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = disk.midi_folder(tmp_path / "source", 3)
    monkeypatch.setattr(training.data.prepare, "encode_piece", disk.encode_or_crash)
    meta = prepare("midi", source, tmp_path / "set", PrepareOptions(workers=2, validation=0))
    assert meta["skipped"] == [
        {"name": "song0.mid", "reason": "it ended the process twice (signal 11)"}
    ]
    assert meta["counts"]["train"]["files"] == 2


def test_licence_is_copied_also_from_an_archive(tmp_path: Path):
    disk.pop909(tmp_path / "POP909")
    with tarfile.open(tmp_path / "pop909.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "POP909", "POP909")
    for number, source in enumerate(("POP909", "pop909.tar.xz")):
        prepare("pop909", tmp_path / source, tmp_path / f"set{number}", HERE)
        assert (tmp_path / f"set{number}" / "LICENSE").read_text() == "MIT License"
    assert contents(tmp_path / "set0")["tokens.bin"] == contents(tmp_path / "set1")["tokens.bin"]
    assert Prepared.open(tmp_path / "set1").meta["source"]["folder"] == "pop909.tar.xz"


def test_licence_that_links_outside_the_source_is_not_copied(tmp_path: Path):
    source, secret = disk.midi_folder(tmp_path / "source", 4), tmp_path / "secret"
    secret.write_text("a key")
    (source / "LICENSE").symlink_to(secret)
    (source / "terms").write_text("MIT License")
    (source / "COPYING").symlink_to("terms")
    prepare("midi", source, tmp_path / "set", HERE)
    held = contents(tmp_path / "set").values()
    assert b"a key" not in held
    assert b"MIT License" in held


def test_test_split_of_ensemble_is_the_validation_split_of_other_languages(tmp_path: Path):
    source = disk.pop909(tmp_path / "source", count=12)
    meta = prepare("pop909", source, tmp_path / "set", HERE)
    assert meta["style"] == "pop"
    assert all(count["files"] for count in meta["counts"].values())
    assert sum(count["files"] for count in meta["counts"].values()) == 12
    earlier = prepare("pop909", source, tmp_path / "old", replace(HERE, language="remi"))
    assert not earlier["counts"]["test"]["files"]
    new, old = Prepared.open(tmp_path / "set"), Prepared.open(tmp_path / "old")
    chosen = {old.name(row) for row in old.rows("validation")}
    assert {new.name(row) for row in new.rows("test")} == chosen


@pytest.mark.parametrize("language", ["remi", "ensemble"])
def test_whole_set_can_be_held_out(language: str, tmp_path: Path):
    source = disk.midi_folder(tmp_path / "source", 3)
    options = PrepareOptions(language=language, test_only=True, workers=0)
    counts = prepare("midi", source, tmp_path / "set", options)["counts"]
    assert {split: count["files"] for split, count in counts.items()} == {
        **{"train": 0, "validation": 0, "test": 3}
    }
    assert len(Prepared.open(tmp_path / "set").rows("test")) >= 3


def test_empty_folder_is_refused_by_every_source(tmp_path: Path):
    (tmp_path / "source").mkdir()
    for name in SOURCES:
        with pytest.raises(ValueError, match=r"source is empty; expected .* \("):
            prepare(name, tmp_path / "source", tmp_path / "set", HERE)
    assert os.listdir(tmp_path) == ["source"]


def with_file(name: str, data: bytes):
    def make(folder: Path) -> Path:
        folder.mkdir()
        (folder / name).write_bytes(data)
        return folder

    return make


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("pop909", disk.groove, r"is not POP909 \(one folder NNN per song"),
        ("human-drums", disk.groove, "is not Groove MIDI Dataset"),
        ("polish-keyboard", disk.groove, "is not Polish Music Heritage"),
        ("pop-piano", disk.groove, "is not the pop piano data"),
        ("midi", with_file("notes.txt", b""), "is not a folder of MIDI, MusicXML or ABC files"),
        ("midi", with_file("a.mid", b"MThd"), r"none of the 1 pieces of .*; the first, a\.mid: "),
    ],
)
def test_folder_of_the_wrong_kind_is_refused(name: str, make, message: str, tmp_path: Path):
    with pytest.raises(ValueError, match=message):
        prepare(name, make(tmp_path / "source"), tmp_path / "set", HERE)
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("options", [{"validation": -0.1}, {"validation": 0.5}, {"workers": -1}])
def test_invalid_options_are_refused(options: dict):
    with pytest.raises(ValueError, match="; give 0"):
        PrepareOptions(**options)


# A prepared set is written whole or not at all, and replaces another only on request.


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
        monkeypatch.setattr("training.data.writer.TOKENS_FILE", "/dev/full")
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
    with pytest.raises(ValueError, match="is not empty and has no prepared data set"):
        write(tmp_path, replace=replace)
    with pytest.raises(ValueError, match=r"thesis\.tex is a file; choose a folder"):
        write(tmp_path / "thesis.tex", replace=replace)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / META_FILE).write_text('{"format": "another program\'s"}')
    with pytest.raises(ValueError, match="has no prepared data set"):
        check_destination(tmp_path, replace=True)


def test_concurrent_writers_are_refused(tmp_path: Path):
    with PreparedWriter(tmp_path / "set", replace=False) as writer:
        writer.add("a", [row(1)], split="train")
        with pytest.raises(ValueError, match=r"another program is writing .*set"):
            write(tmp_path / "set")
        writer.commit(META)
    assert len(Prepared.open(tmp_path / "set")) == 1
