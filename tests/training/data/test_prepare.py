import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import training.data.prepare
from tests.training.data.sources import on_disk as disk
from tokenization.language import Encoded, language_from_spec
from tokenization.prepared import Prepared
from training.data.prepare import PrepareOptions, PrepareReport, Spelled, prepare
from training.data.sources import SOURCES
from training.data.summary import summary

HERE = PrepareOptions(workers=0, validation=0.3)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("pop909", disk.pop909),
        ("pop-piano", disk.pop_piano_midi),
        ("pop-piano", disk.pop_piano_events),
        ("groove", disk.groove),
        ("groove", disk.groove2groove),
        ("lieder", disk.lieder),
        ("human-drums", disk.human_drums),
        ("groove-songs", disk.groove_songs),
        ("midi", disk.midi_folder),
    ],
)
def test_every_source_becomes_valid_tokens(name: str, make, tmp_path: Path):
    meta = prepare(name, make(tmp_path / "source"), tmp_path / "set", HERE)
    prepared = Prepared.open(tmp_path / "set")
    prepared.verify()
    assert meta == prepared.meta
    assert meta["skipped"] == []
    assert meta["source"]["name"] == name
    speaker = language_from_spec(meta["language"])
    for row in range(len(prepared)):
        ids = np.asarray(prepared.ids(row))
        assert speaker.validate(ids) is None
        assert (ids[0], ids[-1]) == (speaker.begin, speaker.end)
        assert prepared.bars(row).tolist() == speaker.bars(ids).tolist()
    assert sum(split["tokens"] for split in meta["counts"].values()) == len(prepared.tokens)


def test_the_bytes_do_not_depend_on_the_workers(tmp_path: Path):
    disk.midi_folder(tmp_path / "source", 9)
    (tmp_path / "source" / "bad.mid").write_bytes(b"bad")
    for workers in (0, 1, 3):
        prepare(
            "midi", tmp_path / "source", tmp_path / f"set{workers}", PrepareOptions(workers=workers)
        )
    assert contents(tmp_path / "set0") == contents(tmp_path / "set1") == contents(tmp_path / "set3")


def test_the_rows_of_a_groove_file_are_its_trios(tmp_path: Path):
    prepare("groove", disk.groove(tmp_path / "source"), tmp_path / "set", HERE)
    prepared = Prepared.open(tmp_path / "set")
    assert prepared.pieces.file.tolist() == np.repeat(np.arange(8), 2).tolist()
    styles = [prepared.meta["styles"][style] for style in prepared.pieces.style]
    for style in {*styles}:
        rows = [row for row, own in enumerate(styles) if own == style]
        assert len({*prepared.pieces.split[rows].tolist()}) == 1


def test_bad_files_are_skipped_counted_and_listed(tmp_path: Path):
    source = disk.midi_folder(tmp_path / "source", 3)
    (source / "empty.mid").touch()
    (source / "song.mp3.mid").write_bytes(b"ID3\x04" + bytes(99))
    shutil.copy(source / "song0.mid", source / "twin.mid")
    done = []
    meta = prepare("midi", source, tmp_path / "set", HERE, lambda *state: done.append(state))
    assert {skipped["name"] for skipped in meta["skipped"]} == {
        "empty.mid",
        "song.mp3.mid",
        "twin.mid",
    }
    reasons = {skipped["name"]: skipped["reason"] for skipped in meta["skipped"]}
    assert reasons["twin.mid"] == "it has the same notes as song0.mid"
    assert str(tmp_path) not in json.dumps(meta)
    assert meta["counts"]["train"]["files"] + meta["counts"]["validation"]["files"] == 3
    assert done == [(n, 6) for n in range(7)]


def test_a_file_that_kills_its_reader_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = disk.midi_folder(tmp_path / "source", 3)
    monkeypatch.setattr(training.data.prepare, "spell", spell_or_die)
    meta = prepare("midi", source, tmp_path / "set", PrepareOptions(workers=2, validation=0))
    assert meta["skipped"] == [
        {"name": "song0.mid", "reason": "working on it ended the process twice (signal 11)"}
    ]
    assert meta["counts"]["train"]["files"] == 2


def spell_or_die(source: str, spoken: str, piece) -> Spelled:
    if piece.name == "song0.mid":
        os.kill(os.getpid(), signal.SIGSEGV)
    number = int("".join(filter(str.isdigit, piece.name)))
    ids = np.full(3, number, dtype=np.uint16)
    return Spelled(
        rows=[Encoded(ids=ids, bars=ids[:1], notes=1)],
        losses={},
        remarks=(),
        digest=bytes([number]),
    )


def test_remarks_that_differ_in_particulars_are_of_one_kind():
    report = PrepareReport([], [])
    report.take({}, ["2 tracks are played on one piano: Lead and Bass.", "The track 'Kit' is odd."])
    report.take({}, ["4 tracks are played on one piano: A, B and C.", "The track 'Drums' is odd."])
    report.take({}, ["Left out: Drums."])
    assert report.meta()["remarks"] == [
        {"example": "2 tracks are played on one piano: Lead and Bass.", "files": 2},
        {"example": "The track 'Kit' is odd.", "files": 2},
        {"example": "Left out: Drums.", "files": 1},
    ]


def test_remarks_that_differ_in_numbers_are_counted_together(tmp_path: Path):
    meta = prepare("midi", disk.midi_folder(tmp_path / "source"), tmp_path / "set", HERE)
    [remark] = [remark for remark in meta["remarks"] if "chords" in remark["example"]]
    assert remark == {
        "example": "No chords are named; they are recognised from the notes.",
        "files": 5,
    }


def test_the_licence_goes_with_the_data_also_out_of_an_archive(tmp_path: Path):
    disk.pop909(tmp_path / "POP909")
    with tarfile.open(tmp_path / "pop909.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "POP909", "POP909")
    for number, source in enumerate(("POP909", "pop909.tar.xz")):
        prepare("pop909", tmp_path / source, tmp_path / f"set{number}", HERE)
        assert (tmp_path / f"set{number}" / "LICENSE").read_text() == "MIT License"
    assert contents(tmp_path / "set0")["tokens.bin"] == contents(tmp_path / "set1")["tokens.bin"]
    assert Prepared.open(tmp_path / "set1").meta["source"]["folder"] == "pop909.tar.xz"


def test_no_link_hands_on_what_lies_elsewhere(tmp_path: Path):
    source, secret = disk.midi_folder(tmp_path / "source", 4), tmp_path / "secret"
    secret.write_text("a key")
    (source / "LICENSE").symlink_to(secret)
    (source / "terms").write_text("MIT License")
    (source / "README").symlink_to("terms")
    prepare("midi", source, tmp_path / "set", HERE)
    held = contents(tmp_path / "set").values()
    assert b"a key" not in held
    assert b"MIT License" in held


def test_what_the_pieces_are_and_their_licence_can_be_told(tmp_path: Path):
    source = disk.midi_folder(tmp_path / "source")
    told = replace(HERE, title="Songs of mine", licence="CC BY 4.0")
    given = prepare("midi", source, tmp_path / "told", told)["source"]
    assert (given["title"], given["licence"]) == ("Songs of mine", "CC BY 4.0")
    silent = prepare("midi", source, tmp_path / "silent", replace(HERE, licence=""))["source"]
    assert silent["licence"] == "not stated: that of the files"


def test_a_folder_may_be_spoken_as_groove(tmp_path: Path):
    source = disk.groove(tmp_path / "source")
    options = PrepareOptions(workers=0, language="groove")
    meta = prepare("midi", source, tmp_path / "set", options)
    assert meta["language"]["language"] == "groove"
    assert meta["notes"] == [
        "It looks like a groove set: `musicgen data groove` may read it better."
    ]


def test_works_are_held_out_for_validation_and_again_for_test(tmp_path: Path):
    source = disk.polish_keyboard(tmp_path / "source")
    options = PrepareOptions(workers=0, validation=0.45)
    meta = prepare("polish-keyboard", source, tmp_path / "set", options)
    assert (meta["language"]["language"], meta["style"]) == ("ensemble", "keyboard")
    found = Prepared.open(tmp_path / "set").pieces
    split = dict(zip(found.names[found.file].tolist(), found.split.tolist(), strict=True))
    assert split["pl-0.mid"] == split["pl-2.mid"]  # two editions of one work
    assert len({*split.values()}) > 1
    assert meta["counts"]["test"]["files"] + meta["counts"]["validation"]["files"] > 0


def test_songs_of_the_ensemble_have_rows_of_several_kinds_and_a_test_split(tmp_path: Path):
    source = disk.pop909(tmp_path / "source", count=12)
    options = PrepareOptions(workers=0, language="ensemble", validation=0.3)
    meta = prepare("pop909", source, tmp_path / "set", options)
    assert meta["style"] == "pop"
    assert all(count["files"] for count in meta["counts"].values())
    assert sum(count["files"] for count in meta["counts"].values()) == 12
    earlier = prepare("pop909", source, tmp_path / "old", PrepareOptions(workers=0, validation=0.3))
    assert not earlier["counts"]["test"]["files"]
    tested, chosen = (
        {one.name(row) for row in one.rows(split)}
        for one, split in (
            (Prepared.open(tmp_path / "set"), "test"),
            (Prepared.open(tmp_path / "old"), "validation"),
        )
    )
    assert tested == chosen


class TestRefusals:
    @pytest.mark.parametrize("name", SOURCES)
    def test_an_empty_folder(self, name: str, tmp_path: Path):
        (tmp_path / "source").mkdir()
        with pytest.raises(ValueError, match=r"source is empty; .* would be "):
            prepare(name, tmp_path / "source", tmp_path / "set", HERE)
        assert os.listdir(tmp_path) == ["source"]

    @pytest.mark.parametrize(
        ("name", "make", "message"),
        [
            (
                "pop909",
                disk.groove,
                "is not POP909 .*: it looks like a groove set, which `musicgen data groove` reads",
            ),
            ("groove", disk.pop909, "is not a groove set .*: it looks like POP909"),
            (
                "pop-piano",
                disk.midi_folder,
                "is not the pop piano data .*: it looks like a folder of MIDI, MusicXML or ABC files",
            ),
            (
                "midi",
                disk.pop_piano_events,
                "is not a folder of MIDI, MusicXML or ABC files .*: it looks like the pop piano data",
            ),
        ],
    )
    def test_a_foreign_folder(self, name: str, make, message: str, tmp_path: Path):
        with pytest.raises(ValueError, match=message):
            prepare(name, make(tmp_path / "source"), tmp_path / "set", HERE)

    def test_a_folder_without_music(self, tmp_path: Path):
        (tmp_path / "notes.txt").touch()
        with pytest.raises(ValueError, match="it holds no music that can be read"):
            prepare("midi", tmp_path, tmp_path / "set", HERE)

    def test_a_folder_of_which_nothing_can_be_read(self, tmp_path: Path):
        source = tmp_path / "source"
        source.mkdir()
        (source / "a.mid").write_bytes(b"MThd")
        with pytest.raises(ValueError, match=r"none of the 1 pieces of .*; the first, a\.mid: "):
            prepare("midi", source, tmp_path / "set", HERE)
        assert os.listdir(tmp_path) == ["source"]

    def test_a_missing_source(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match=r"no folder or archive .*nowhere"):
            prepare("midi", tmp_path / "nowhere", tmp_path / "set", HERE)

    def test_the_source_is_no_destination(self, tmp_path: Path):
        source = disk.midi_folder(tmp_path / "source")
        with pytest.raises(ValueError, match="holds no prepared data set"):
            prepare("midi", source, source, PrepareOptions(workers=0, replace=True))

    @pytest.mark.parametrize(
        "options", [{"validation": -0.1}, {"validation": 0.5}, {"workers": -1}]
    )
    def test_options_that_cannot_be(self, options: dict):
        with pytest.raises(ValueError, match=r"can(not)? be"):
            PrepareOptions(**options)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_the_old_set_whole(how: signal.Signals, tmp_path: Path):
    source = disk.midi_folder(tmp_path / "source", 4)
    prepare("midi", source, tmp_path / "set", HERE)
    before = contents(tmp_path / "set")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from training.data.prepare import PrepareOptions, prepare\n"
        "def progress(done, total):\n"
        "    print(done, flush=True)\n"
        "    time.sleep(60 * (done == 3))\n"
        "if __name__ == '__main__':\n"
        "    options = PrepareOptions(workers=1, replace=True)\n"
        "    prepare('midi', Path(sys.argv[1]), Path(sys.argv[2]), options, progress)\n"
    )
    command = [sys.executable, str(program), str(source), str(tmp_path / "set")]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stdout is not None
        while run.stdout.readline().strip() != "3":
            assert run.poll() is None
        time.sleep(0.05)
        run.send_signal(how)
    assert run.returncode != 0
    assert contents(tmp_path / "set") == before
    prepare(
        "midi", source, tmp_path / "set", PrepareOptions(workers=0, validation=0.3, replace=True)
    )
    assert contents(tmp_path / "set") == before
    assert sorted(os.listdir(tmp_path)) == ["program.py", "set", "source"]


def test_a_summary_tells_what_is_in_a_set(tmp_path: Path):
    prepare("groove", disk.groove(tmp_path / "source"), tmp_path / "set", HERE)
    found = summary(Prepared.open(tmp_path / "set"))
    assert sum(found["families"].values()) == pytest.approx(1)
    assert found["families"]["note_on"] == pytest.approx(found["families"]["note_off"])
    lengths = found["lengths"]["train"]
    assert lengths["shortest"] <= lengths["median"] <= lengths["longest"]
    assert found["excerpt"]["tokens"].startswith("begin\nnote_on_0_")
    assert found["styles"] == 4


def test_attribution_and_licence_of_human_drums_stay_with_the_set(tmp_path: Path):
    disk.human_drums(tmp_path / "source", odd=True)
    meta = prepare("human-drums", tmp_path / "source", tmp_path / "set", HERE)
    assert meta["source"]["licence"].startswith("CC BY 4.0, Google LLC (Groove MIDI Dataset;")
    assert (tmp_path / "set" / "LICENSE").read_text() == "Creative Commons Attribution 4.0"
    assert {one["reason"].partition(";")[0] for one in meta["skipped"]} == {
        "it is a fill or break of 1 bar",
        "its metre is 3/4",
        "it is listed, but missing",
    }
    assert {split: count["files"] for split, count in meta["counts"].items()} == {
        **{"train": 2, "validation": 1, "test": 1}
    }
