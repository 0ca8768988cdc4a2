import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources import on_disk as disk
from tokenization.analysis.grid import has_beats
from tokenization.formats import write_score
from tokenization.language import language
from training.data.sources import SOURCES, recognise
from training.data.sources.groove import merged, paper_split
from training.data.sources.pop_piano import score_of_events, with_chords
from training.data.sources.source import Found, list_files, read

MAKERS = {
    "pop909": disk.pop909,
    "groove": disk.groove,
    "pop-piano": disk.pop_piano_midi,
    "lieder": disk.lieder,
    "quartets": disk.quartets,
    "polish-keyboard": disk.polish_keyboard,
    "human-drums": disk.human_drums,
    "groove-songs": disk.groove_songs,
    "midi": disk.midi_folder,
}


def find(name: str, folder: Path, validation: float = 0.05) -> Found:
    return SOURCES[name].find(list_files(folder), validation)


def names(found: Found) -> list[str]:
    return [piece.name for piece in found.pieces]


@pytest.mark.parametrize("name", MAKERS)
def test_every_source_is_recognised_at_any_depth_and_its_pieces_are_spelled(
    name: str, tmp_path: Path
):
    MAKERS[name](tmp_path / "in" / "a folder")
    source = SOURCES[name]
    assert recognise(list_files(tmp_path)) is source
    spoken = language(source.language)
    found = find(name, tmp_path)
    assert found.pieces
    for piece in found.pieces:
        for score in source.scores(piece, spoken):
            assert spoken.validate(spoken.encode(score).ids) is None


def test_other_pickles_and_groove2groove_are_recognised(tmp_path: Path):
    disk.pop_piano_events(tmp_path / "events")
    disk.groove2groove(tmp_path / "g2g")
    assert recognise(list_files(tmp_path / "events")) is SOURCES["pop-piano"]
    assert recognise(list_files(tmp_path / "g2g")) is SOURCES["groove"]


def test_a_folder_without_music_is_nothing(tmp_path: Path):
    (tmp_path / "text.txt").write_text("text")
    assert recognise(list_files(tmp_path)) is None


class TestListing:
    def test_hidden_files_are_left_out_and_the_order_is_fixed(self, tmp_path: Path):
        for name in ("b.mid", "a.mid", "._a.mid", ".git/c.mid", "sub/c.KAR"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        listing = list_files(tmp_path)
        assert listing.files == ("a.mid", "b.mid", "sub/c.KAR")
        assert listing.midi_files == ["a.mid", "b.mid", "sub/c.KAR"]

    def test_what_is_no_file_is_told_and_never_opened(self, tmp_path: Path):
        disk.midi_folder(tmp_path / "songs", 1)
        os.mkfifo(tmp_path / "pipe.mid")  # to open it would be to wait for ever
        (tmp_path / "lost.mid").symlink_to("nowhere.mid")
        (tmp_path / "linked").symlink_to("songs")
        listing = list_files(tmp_path)
        assert listing.files == ("songs/song0.mid",)
        assert {skipped.name: skipped.reason[:17] for skipped in listing.unreadable} == {
            "lost.mid": "it is not a file,",
            "pipe.mid": "it is not a file,",
            "linked": "it is a link to a",
        }
        assert recognise(listing) is SOURCES["midi"]

    def test_a_name_that_is_no_text_is_written_out(self, tmp_path: Path):
        disk.midi_folder(tmp_path, 1)
        os.rename(tmp_path / "song0.mid", os.fsencode(tmp_path) + b"/\xff.mid")
        assert names(find("midi", tmp_path)) == ["\\xff.mid"]

    def test_a_device_is_no_folder(self):
        with pytest.raises(ValueError, match="/dev/null is neither a folder nor an archive"):
            list_files(Path("/dev/null"))

    def test_a_missing_folder_is_named(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match=r"no folder or archive .*nowhere"):
            list_files(tmp_path / "nowhere")


class TestMidiFolder:
    def test_all_extensions_are_found(self, tmp_path: Path):
        found = find("midi", disk.midi_folder(tmp_path))
        assert names(found) == [
            "deep/er/song1.MIDI",
            "deep/er/song3.mid",
            "song0.mid",
            "song2.kar",
            "song4.MIDI",
        ]

    def test_more_files_move_no_piece(self, tmp_path: Path):
        before = {p.name: p.split for p in find("midi", disk.midi_folder(tmp_path, 20), 0.3).pieces}
        after = {p.name: p.split for p in find("midi", disk.midi_folder(tmp_path, 40), 0.3).pieces}
        assert {name: after[name] for name in before} == before
        assert {*after.values()} == {"train", "validation"}

    def test_a_piece_in_several_formats_is_in_one_split(self, tmp_path: Path):
        disk.midi_folder(tmp_path, 40)
        before = {p.name: p.split for p in find("midi", tmp_path, 0.3).pieces}
        for name in before:
            (tmp_path / name).with_suffix(".mxl").touch()
            (tmp_path / name).with_suffix(".musicxml").touch()
        after = {p.name: p.split for p in find("midi", tmp_path, 0.3).pieces}
        assert len(after) == 3 * len(before)
        for name, split in before.items():
            stem = name.rpartition(".")[0]
            assert {after[name], after[f"{stem}.mxl"], after[f"{stem}.musicxml"]} == {split}

    def test_a_band_gives_a_trio_for_each_other_track(self, tmp_path: Path):
        write_score(tmp_path / "band.mid", disk.band())
        piece = find("midi", tmp_path).pieces[0]
        assert len(SOURCES["midi"].scores(piece, language("groove"))) == 2
        assert len(SOURCES["midi"].scores(piece, language("remi"))) == 1

    def test_scores_are_pieces_too_and_a_score_of_words_is_skipped(self, tmp_path: Path):
        disk.midi_folder(tmp_path, 1)
        (tmp_path / "tune.abc").write_text("X:1\nK:C\nCDEF|")
        (tmp_path / "Song.MusicXML").write_bytes(disk.score(disk.bars(disk.note("C", 4, 8))))
        found = find("midi", tmp_path)
        assert names(found) == ["Song.MusicXML", "song0.mid", "tune.abc"]
        scores = [SOURCES["midi"].scores(piece, language("remi"))[0] for piece in found.pieces]
        assert [len(score.notes) for score in scores][::2] == [1, 4]

    def test_every_tune_of_a_book_is_a_piece(self, tmp_path: Path):
        book = "".join(f"X:{n}\nM:4/4\nL:1/4\nK:C\n{'CDE'[n]}4|\n\n" for n in range(3))
        (tmp_path / "book.abc").write_text(book)
        found = find("midi", tmp_path)
        assert names(found) == ["book.abc#1", "book.abc#2", "book.abc#3"]
        scores = [SOURCES["midi"].scores(piece, language("remi"))[0] for piece in found.pieces]
        assert [score.notes.pitch.tolist() for score in scores] == [[60], [62], [64]]
        assert not any("first is read" in remark for score in scores for remark in score.remarks)


class TestLieder:
    def test_voice_and_piano_are_one_part_and_metres_those_of_the_score(self, tmp_path: Path):
        disk.lieder(tmp_path)
        pieces = find("lieder", tmp_path).pieces
        assert [piece.name for piece in pieces] == [f"lc{n}.mxl" for n in (100, 101, 102)]
        score = read(pieces[0])
        assert [c.tolist() for c in score.meters.columns] == [[0], [3], [4]]
        assert (score.notes.onset_ticks // score.ticks_per_beat).tolist()[:3] == [2, 3, 3]
        arranged = SOURCES["lieder"].scores(pieces[0], language("remi"))[0]
        assert len(arranged.tracks) == 1
        assert len(arranged.notes) == len(score.notes)

    def test_a_song_stays_in_its_split_wherever_it_lies(self, tmp_path: Path):
        splits = [
            {piece.path.name: piece.split for piece in find("lieder", folder, 0.4).pieces}
            for folder in (disk.lieder(tmp_path / "a" / "b"), disk.lieder(tmp_path / "c"))
        ]
        assert splits[0] == splits[1]


class TestHumanDrums:
    def test_what_is_taken_and_what_is_not(self, tmp_path: Path):
        disk.human_drums(tmp_path, odd=True)
        found = find("human-drums", tmp_path)
        assert [piece.split for piece in found.pieces] == [
            *("train", "train", "validation", "test", "train", "train")
        ]
        reasons = {skipped.name[9:10]: skipped.reason for skipped in found.skipped}
        assert reasons == {"6": "it is listed, but missing"}
        waltz = next(piece for piece in found.pieces if "3-4" in piece.name)
        with pytest.raises(ValueError, match="its metre is 3/4; grooves are in 4/4"):
            SOURCES["human-drums"].scores(waltz, language("groove"))
        (score,) = SOURCES["human-drums"].scores(waltz, language("ensemble"))
        assert (score.meters.numerator, score.meters.denominator) == (3, 4)
        fill = next(piece for piece in found.pieces if "fill" in piece.name)
        with pytest.raises(ValueError, match="it is a fill or break of 1 bar; 4 make a piece"):
            SOURCES["human-drums"].scores(fill, language("groove"))

    def test_a_list_that_breaks_off_costs_its_last_performance(self, tmp_path: Path):
        disk.human_drums(tmp_path)
        *lines, last = (tmp_path / "info.csv").read_text().splitlines()
        whole, cells = find("human-drums", tmp_path), last.split(",")
        for kept in range(1, len(cells)):
            (tmp_path / "info.csv").write_text("\n".join([*lines, ",".join(cells[:kept])]))
            found = find("human-drums", tmp_path)
            assert len(found.pieces) == len(whole.pieces) - 1
            assert found.skipped[-1].reason == "its line of the list breaks off"

    def test_drums_alone_are_heard_as_general_midi_names_them(self, tmp_path: Path):
        disk.human_drums(tmp_path)
        piece = find("human-drums", tmp_path).pieces[0]
        (score,) = SOURCES["human-drums"].scores(piece, language("groove"))
        assert {score.tracks[i].name for i in score.notes.track} == {"Drums"}
        assert {*score.notes.pitch.tolist()} == {36, 38, 42, 46}
        assert len(score.notes) == 32  # played beside the beats, and not moved by an estimate
        assert has_beats(score) or score.ticks_per_beat == 480

    def test_a_list_that_is_no_table_is_an_error(self, tmp_path: Path):
        disk.human_drums(tmp_path)
        with (tmp_path / "info.csv").open("ab") as file:
            file.write(b"\xff\n")
        with pytest.raises(ValueError, match=r"info\.csv is no table"):
            find("human-drums", tmp_path)

    def test_a_list_that_names_a_file_twice_is_an_error(self, tmp_path: Path):
        disk.human_drums(tmp_path)
        lines = (tmp_path / "info.csv").read_text().splitlines()
        (tmp_path / "info.csv").write_text("\n".join([*lines, lines[1]]))
        with pytest.raises(ValueError, match=r"info\.csv lists drummer1/0_rock.* twice"):
            find("human-drums", tmp_path)


def test_groove_songs_are_all_to_train_on(tmp_path: Path):
    disk.groove_songs(tmp_path)
    found = find("groove-songs", tmp_path, 0.4)
    assert [(piece.split, piece.style) for piece in found.pieces] == [
        *(("train", "a_a1"), ("train", "b_b1"))
    ]
    flat = tmp_path / "flat"
    flat.mkdir()
    for style in range(20):
        (flat / f"bb0001.s{style}_a.mid").touch()
    assert {piece.split for piece in find("groove-songs", flat, 0.4).pieces} == {"train"}


class TestPop909:
    def test_songs_lie_on_their_annotated_beats_with_their_chords(self, tmp_path: Path):
        found = find("pop909", disk.pop909(tmp_path, 1))
        [score] = SOURCES["pop909"].scores(found.pieces[0], language("remi"))
        assert names(found) == ["001"]
        assert [marker.text for marker in score.markers] == ["C_M", "A_m7", "N_N", "G_7"]
        assert (score.notes.onset_ticks % score.ticks_per_beat == 0).all()

    def test_a_song_without_annotation_is_skipped_with_the_reason(self, tmp_path: Path):
        disk.pop909(tmp_path)
        (tmp_path / "002" / "chord_midi.txt").unlink()
        found = find("pop909", tmp_path)
        assert names(found) == ["001", "003"]
        assert [(s.name, s.reason) for s in found.skipped] == [("002", "chord_midi.txt is missing")]

    def test_of_two_folders_of_a_song_one_is_taken(self, tmp_path: Path):
        disk.pop909(tmp_path / "a", 1)
        disk.pop909(tmp_path / "b", 1)
        found = find("pop909", tmp_path)
        assert names(found) == ["001"]
        assert found.skipped[0].name == "b/001"


class TestPopPiano:
    def test_of_several_stages_the_last_is_read(self, tmp_path: Path):
        found = find("pop-piano", disk.pop_piano_midi(tmp_path))
        assert names(found) == [f"midi_analyzed/{n}.mid" for n in range(3)]

    def test_a_few_files_with_chords_or_a_pickle_make_no_such_set(self, tmp_path: Path):
        disk.midi_folder(tmp_path, 5)
        write_score(tmp_path / "made.mid", disk.piano(9, markers=(disk.Marker(0, "C_M"),)))
        (tmp_path / "model.pkl").touch()
        assert recognise(list_files(tmp_path)) is SOURCES["midi"]

    def test_markers_become_the_chords(self, tmp_path: Path):
        piece = find("pop-piano", disk.pop_piano_midi(tmp_path)).pieces[0]
        [score] = SOURCES["pop-piano"].scores(piece, language("remi"))
        assert [(m.onset_ticks, m.text) for m in score.markers] == [
            (0, "A_m7"),
            (960, "N_N"),
            (1920, "C_M"),
        ]

    @pytest.mark.parametrize(
        ("text", "chord"),
        [
            *(
                ("Chord-A_m7", "A_m7"),
                ("A#_/o7_C", "A#_/o7"),
                ("N_N_N", "N_N"),
                ("Chord-N_N", "N_N"),
            ),
            *(
                ("Bar-1", None),
                ("global_bpm_90", None),
                ("Boundary_2", None),
                ("Bb", None),
                ("", None),
            ),
        ],
    )
    def test_chord_markers_in_both_spellings(self, text: str, chord: str | None):
        score = with_chords(disk.piano(markers=(disk.Marker(0, text),)))
        assert [marker.text for marker in score.markers] == ([chord] if chord else [])

    def test_a_list_that_asks_for_memory_gets_none(self, tmp_path: Path):
        disk.pop_piano_events(tmp_path)
        remembered = (1 << 26).to_bytes(4, "little")  # places that Python's reader lays out
        (tmp_path / "train_pieces.pkl").write_bytes(b"\x80\x02]r" + remembered + b".")
        with pytest.raises(ValueError, match=r"train_pieces\.pkl is not a readable pickle"):
            find("pop-piano", tmp_path)

    def test_lists_of_pieces_decide_the_split(self, tmp_path: Path):
        disk.pop_piano_events(tmp_path)
        for split, listed in {"train": ["0.pkl"], "val": ["1.pkl"], "test": ["2.pkl"]}.items():
            (tmp_path / f"{split}_pieces.pkl").write_bytes(pickle.dumps(listed))
        found = find("pop-piano", tmp_path)
        assert [piece.split for piece in found.pieces] == ["train", "validation", "test"]

    def test_a_piece_has_one_split_from_whatever_folder_it_is_read(self, tmp_path: Path):
        disk.pop_piano_midi(tmp_path / "above" / "set", 30)
        here, above = (
            [piece.split for piece in find("pop-piano", folder, 0.3).pieces]
            for folder in (tmp_path / "above" / "set", tmp_path)
        )
        assert here == above
        assert {*here} == {"train", "validation"}

    def test_a_list_of_pieces_that_is_none_is_named(self, tmp_path: Path):
        disk.pop_piano_events(tmp_path)
        (tmp_path / "val_pieces.pkl").write_bytes(pickle.dumps({"a": 1}))
        with pytest.raises(ValueError, match=r"val_pieces\.pkl is not a list of names"):
            find("pop-piano", tmp_path)


class TestEvents:
    def test_events_become_the_notes_they_say(self):
        score = score_of_events(disk.events())
        assert score.notes.onset_ticks.tolist() == [0, 960, 1920, 2880]
        assert score.notes.pitch.tolist() == [60, 64, 60, 64]
        assert score.notes.duration_ticks.tolist() == [480, 60, 480, 60]
        assert score.notes.velocity.tolist() == [80, 70, 80, 70]
        assert score.tempos.beats_per_minute.tolist() == [110, 110]
        assert [(m.onset_ticks, m.text) for m in score.markers] == [(0, "A_m7"), (1920, "A_m7")]

    def test_a_list_without_positions_and_values_as_text_will_do(self):
        events = [{**event, "value": str(event["value"])} for event in disk.events()[1]]
        assert score_of_events(events).notes == score_of_events(disk.events()).notes

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"Bar": 1}, r"no \(bar positions"),
            ([], r"no \(bar positions"),
            (({}, {}), r"no \(bar positions"),
            ([{"name": "Beat", "value": 0}], "event 0 is Beat where the first Bar"),
            (
                [{"name": "Bar", "value": None}, {"name": "Beat", "value": 16}],
                "event 1 is Beat 16; 0 to 15",
            ),
            (
                [{"name": "Bar", "value": None}, {"name": "Tempo", "value": "x"}],
                "event 1 is Tempo 'x'",
            ),
            (
                [{"name": "Bar", "value": None}, {"name": "Tempo", "value": 1e400}],
                "event 1 is Tempo inf",
            ),
            ([{"name": "Bar", "value": None}, {"name": "Foo", "value": 1}], "event 1 is 'Foo'"),
            (
                [{"name": "Bar", "value": None}, {"name": "Note_Pitch", "value": 60}],
                "event 2 is the end where Note_Vel",
            ),
        ],
    )
    def test_anything_else_is_refused_at_its_event(self, content: object, message: str):
        with pytest.raises(ValueError, match=message):
            score_of_events(content)


class TestGroove:
    def test_folders_are_the_splits_and_names_hold_the_styles(self, tmp_path: Path):
        found = find("groove", disk.groove(tmp_path))
        assert [(piece.split, piece.style) for piece in found.pieces] == [
            *[("test", "libd_d")] * 2,
            *[("train", "liba_a"), ("train", "libb_b")] * 2,
            *[("validation", "libc_c")] * 2,
        ]

    def test_each_other_track_makes_a_trio(self, tmp_path: Path):
        piece = find("groove", disk.groove(tmp_path)).pieces[0]
        scores = SOURCES["groove"].scores(piece, language("groove"))
        assert [[track.program for track in score.tracks] for score in scores] == [
            [33, 0, 0],
            [33, 0, 25],
        ]

    def test_the_beats_of_a_file_are_right_however_loosely_it_plays(self, tmp_path: Path):
        score = disk.band()
        shifts = np.random.default_rng(0).integers(0, disk.TICKS, len(score.notes))
        notes = score.notes.replace(onset_ticks=score.notes.onset_ticks + shifts).sorted()
        loose = score.replace(notes=notes)
        assert not has_beats(loose)
        disk.groove(tmp_path)
        write_score(tmp_path / "val" / "pop7.libc_c.mid", loose)
        piece = next(p for p in find("groove", tmp_path).pieces if "pop7" in p.name)
        for trio in SOURCES["groove"].scores(piece, language("groove")):
            assert trio.ticks_per_beat == disk.TICKS
            assert {*trio.notes.onset_ticks.tolist()} <= {*notes.onset_ticks.tolist()}

    def test_a_style_in_two_splits_is_refused(self, tmp_path: Path):
        disk.groove(tmp_path)
        write_score(tmp_path / "test" / "pop9.liba_a.mid", disk.band(99))
        with pytest.raises(ValueError, match="the style liba_a lies in train and test"):
            find("groove", tmp_path)

    def test_files_of_other_names_and_folders_are_skipped(self, tmp_path: Path):
        disk.groove(tmp_path)
        write_score(tmp_path / "train" / "song.mid", disk.band(98))
        write_score(tmp_path / "pop9.libz_z.mid", disk.band(99))
        found = find("groove", tmp_path)
        assert {skipped.name: skipped.reason for skipped in found.skipped} == {
            "train/song.mid": "it is not named CHART.STYLE.mid",
            "pop9.libz_z.mid": "it lies in none of the folders train, val and test",
        }

    def test_without_folders_styles_are_held_out_by_their_family(self, tmp_path: Path):
        for style in range(40):
            for sub in "ab":
                (tmp_path / f"pop1.style{style}_{sub}.mid").touch()
        pieces = find("groove", tmp_path, 0.2).pieces
        families: dict[str, set[str]] = {}
        for piece in pieces:
            families.setdefault(piece.style[:-2], set()).add(piece.split)
        assert all(len(splits) == 1 for splits in families.values())
        assert {piece.split for piece in pieces} == {"train", "validation", "test"}


class TestGroove2Groove:
    def test_the_training_styles_alone_are_used_with_both_substyles_in_one_split(
        self, tmp_path: Path
    ):
        found = find("groove", disk.groove2groove(tmp_path), 0.0)
        assert all("/train/fixed/" in piece.name for piece in found.pieces)
        assert found.remarks == [
            "8 files outside train/fixed are not used: the paper's validation and test styles are held out "
            "from the training styles."
        ]

    def test_of_a_style_held_out_one_file_is_kept(self, tmp_path: Path):
        found = find("groove", disk.groove2groove(tmp_path, 12), 0.3)
        pieces = found.pieces
        assert len(pieces) < 48
        assert found.remarks[-1] == (
            f"{48 - len(pieces)} files not used: of a style held out the paper takes one file."
        )
        held_out = [piece.style for piece in pieces if piece.split != "train"]
        assert held_out
        assert len(held_out) == len({*held_out})
        train = [piece.style for piece in pieces if piece.split == "train"]
        assert len(train) == 2 * len({*train})

    def test_a_style_with_one_file_is_skipped_as_in_the_paper(self, tmp_path: Path):
        disk.groove2groove(tmp_path, 1)
        (tmp_path / "midi/train/fixed/maj0.STYLE0_a.mid").unlink()
        found = find("groove", tmp_path)
        assert [s.reason for s in found.skipped] == ["style STYLE0_a has 1 file, not 2"]

    def test_files_beside_its_folders_are_not_used(self, tmp_path: Path):
        disk.groove2groove(tmp_path, 2)
        write_score(tmp_path / "pop9.libz_z.mid", disk.band(99))
        found = find("groove", tmp_path, 0.0)
        assert len(found.pieces) == 8
        assert found.remarks[0].startswith("9 files outside train/fixed")

    def test_the_count_in_goes_and_tracks_of_one_name_are_one(self, tmp_path: Path):
        piece = find("groove", disk.groove2groove(tmp_path, 1), 0.0).pieces[0]
        scores = SOURCES["groove"].scores(piece, language("groove"))
        assert [[track.program for track in score.tracks] for score in scores] == [
            [33, 0, 0],
            [33, 0, 48],
        ]
        strings = scores[1].notes[scores[1].notes.track == 2]
        assert len(strings) == 32
        for score in scores:
            assert score.notes.onset_ticks.min() == 0
            assert not (score.notes.pitch[score.notes.track == 1] == 37).all()

    def test_merging_keeps_every_note(self):
        score = disk.band(names=("BB Bass", "BB Piano", "BB Bass"))
        together = merged(score)
        assert sorted({*together.notes.track.tolist()}) == [0, 1]
        assert np.bincount(together.notes.track).tolist() == [32, 16]

    def test_the_whole_release_is_split_as_the_paper_did(self):
        families = [f"S{number:04d}" for number in range(1436)]
        splits = paper_split(families[::-1])
        assert splits == paper_split(families)
        counts = {
            split: [*splits.values()].count(split) for split in ("train", "validation", "test")
        }
        assert counts == {"train": 1386, "validation": 25, "test": 25}
        # The first ones that scikit-learn's train_test_split draws after numpy.random.seed(0).
        assert {splits[name] for name in ("S0651", "S0411", "S0342", "S1298", "S0483")} == {"test"}
        assert {splits[name] for name in ("S0143", "S0914", "S0565", "S0747", "S0552")} == {
            "validation"
        }
