"""Each source is read correctly, and held-out names, styles and works stay held out."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.tokenization.notation.scores import bars, compressed, note, score
from tests.training.data.sources import on_disk as disk
from tokenization.ensemble.tokens import FLAT
from tokenization.formats import write_score
from tokenization.language import language
from tokenization.score import Notes, Score, Track
from training.data.sources import SOURCES
from training.data.sources.groove import paper_split
from training.data.sources.orchestra import with_fewer_parts
from training.data.sources.pop909 import arrangements
from training.data.sources.pop_piano import score_of_events
from training.data.sources.source import Found, joined, list_files, split_of
from training.data.sources.works import opening, split_works


def find(name: str, folder: Path, validation: float = 0.05) -> Found:
    return SOURCES[name].find(list_files(folder), validation)


def names(found: Found) -> list[str]:
    return [piece.name for piece in found.pieces]


def splits(found: Found) -> dict[str, str]:
    return {piece.name: piece.split for piece in found.pieces}


def scores(name: str, folder: Path, target: str, number: int = 0) -> list[Score]:
    """Return the rows of a piece."""
    return SOURCES[name].scores(find(name, folder).pieces[number], language(target))


def test_listing_is_sorted_without_hidden_files_and_opens_no_pipe(tmp_path: Path):
    disk.midi_folder(tmp_path / "songs", 1)
    for name in ("b.mid", "a.mid", "._a.mid", ".git/c.mid", "sub/c.KAR"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe.mid")  # opening it would block
    (tmp_path / "lost.mid").symlink_to("nowhere.mid")
    (tmp_path / "linked").symlink_to("songs")
    listing = list_files(tmp_path)
    assert listing.files == ("a.mid", "b.mid", "songs/song0.mid", "sub/c.KAR")
    assert listing.midi_files == [*listing.files]
    os.rename(tmp_path / "a.mid", os.fsencode(tmp_path) + b"/\xff.mid")
    assert "\\xff.mid" in names(find("midi", tmp_path))
    with pytest.raises(ValueError, match="/dev/null is neither a folder nor an archive"):
        list_files(Path("/dev/null"))
    with pytest.raises(FileNotFoundError, match=r"no folder or archive .*nowhere"):
        list_files(tmp_path / "nowhere")


def test_all_extensions_are_found_and_added_files_change_no_split(tmp_path: Path):
    few = splits(find("midi", disk.midi_folder(tmp_path, 20), 0.3))
    assert [*few][:2] == ["deep/er/song1.MIDI", "deep/er/song11.kar"]
    assert {name.rpartition(".")[2] for name in few} == {"mid", "MIDI", "kar"}
    disk.midi_folder(tmp_path, 40)
    for name in few:
        (tmp_path / name).with_suffix(".mxl").touch()
    more = splits(find("midi", tmp_path, 0.3))
    assert len(more) == 60
    for name, split in few.items():
        assert {more[name], more[f"{name.rpartition('.')[0]}.mxl"]} == {split}
    assert {*more.values()} == {"train", "validation"}


def test_scores_and_all_tunes_of_an_abc_file_are_found(tmp_path: Path):
    disk.midi_folder(tmp_path, 1)
    book = "".join(f"X:{n}\nM:4/4\nL:1/4\nK:C\n{'CDE'[n]}4|\n\n" for n in range(3))
    (tmp_path / "book.abc").write_text(book)
    (tmp_path / "Song.MusicXML").write_bytes(disk.score(disk.bars(disk.note("C", 4, 8))))
    (tmp_path / "tune.abc").write_text("X:1\nK:C\nCDEF|")
    found = " ".join(names(find("midi", tmp_path)))
    assert found == "Song.MusicXML book.abc#1 book.abc#2 book.abc#3 song0.mid tune.abc"
    rows = [scores("midi", tmp_path, "remi", number)[0] for number in (0, 1, 2, 3, 5)]
    assert [len(row.notes) for row in rows] == [1, 1, 1, 1, 4]
    assert [int(row.notes.pitch[0]) for row in rows[1:4]] == [60, 62, 64]
    assert not any("first is read" in remark for row in rows for remark in row.remarks)


def test_listed_drums_are_found_and_unusable_ones_refused(tmp_path: Path):
    disk.human_drums(tmp_path, odd=True)
    found = find("human-drums", tmp_path)
    listed = " ".join(piece.split for piece in found.pieces)
    assert listed == "train train validation test train train"
    [skipped] = found.skipped
    assert (skipped.name[9:10], skipped.reason) == ("6", "it is listed, but missing")
    source = SOURCES["human-drums"]
    waltz = next(piece for piece in found.pieces if "3-4" in piece.name)
    with pytest.raises(ValueError, match="its metre is 3/4; grooves are in 4/4"):
        source.scores(waltz, language("groove"))
    (score,) = source.scores(waltz, language("ensemble"))
    assert (score.meters.numerator, score.meters.denominator) == (3, 4)
    fill = next(piece for piece in found.pieces if "fill" in piece.name)
    with pytest.raises(ValueError, match="it is a fill or break of 1 bar; a piece has 4 or more"):
        source.scores(fill, language("groove"))
    (score,) = scores("human-drums", tmp_path, "groove")
    assert {score.tracks[i].name for i in score.notes.track} == {"Drums"}
    assert {*score.notes.pitch.tolist()} == {36, 38, 42, 46}
    assert len(score.notes) == 32  # off the beats, and not moved to estimated ones
    assert score.ticks_per_beat == 480


def test_grooves_have_splits_from_folders_and_styles_from_names(tmp_path: Path):
    disk.groove(tmp_path)
    write_score(tmp_path / "train" / "song.mid", disk.band(98))
    write_score(tmp_path / "pop9.libz_z.mid", disk.band(99))
    found = find("groove", tmp_path)
    assert [(piece.split, piece.style) for piece in found.pieces] == [
        *[("test", "libd_d")] * 2,
        *[("train", "liba_a"), ("train", "libb_b")] * 2,
        *[("validation", "libc_c")] * 2,
    ]
    assert {skipped.name: skipped.reason for skipped in found.skipped} == {
        "train/song.mid": "it is not named CHART.STYLE.mid",
        "pop9.libz_z.mid": "it is in none of the folders train, val and test",
    }
    rows = scores("groove", tmp_path, "groove")
    assert [[t.program for t in row.tracks] for row in rows] == [[33, 0, 0], [33, 0, 25]]
    write_score(tmp_path / "test" / "pop9.liba_a.mid", disk.band(99))
    with pytest.raises(ValueError, match="the style liba_a is in both train and test"):
        find("groove", tmp_path)


def test_groove2groove_is_split_as_in_the_paper():
    families = [f"S{number:04d}" for number in range(1436)]
    found = paper_split(families[::-1])
    assert found == paper_split(families)
    counts = {split: [*found.values()].count(split) for split in {*found.values()}}
    assert counts == {"train": 1386, "validation": 25, "test": 25}
    # The first that scikit-learn's train_test_split draws after numpy.random.seed(0).
    assert {found[name] for name in ("S0651", "S0411", "S0342", "S1298", "S0483")} == {"test"}
    assert {found[name] for name in ("S0143", "S0914", "S0565", "S0747", "S0552")} == {"validation"}


def test_pop_piano_is_read_at_its_last_stage_with_chord_markers(tmp_path: Path):
    disk.pop_piano_midi(tmp_path / "above" / "set", 30)
    here = find("pop-piano", tmp_path / "above" / "set", 0.3)
    assert all(name.startswith("midi_analyzed/") for name in names(here))
    above = find("pop-piano", tmp_path, 0.3)
    assert [*splits(here).values()] == [*splits(above).values()]
    assert {*splits(here).values()} == {"train", "validation"}
    [score] = scores("pop-piano", tmp_path, "remi")
    chords = [(m.onset_ticks, m.text) for m in score.markers]
    assert chords == [(0, "A_m7"), (960, "N_N"), (1920, "C_M")]


def test_lists_of_pieces_determine_the_splits(tmp_path: Path):
    disk.pop_piano_events(tmp_path)
    for split, listed in {"train": ["0.pkl"], "val": ["1.pkl"], "test": ["2.pkl"]}.items():
        (tmp_path / f"{split}_pieces.pkl").write_bytes(pickle.dumps(listed))
    found = find("pop-piano", tmp_path)
    assert [piece.split for piece in found.pieces] == ["train", "validation", "test"]
    (tmp_path / "val_pieces.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"val_pieces\.pkl is not a list of names"):
        find("pop-piano", tmp_path)
    remembered = (1 << 26).to_bytes(4, "little")  # memo entries that Python's unpickler allocates
    (tmp_path / "train_pieces.pkl").write_bytes(b"\x80\x02]r" + remembered + b".")
    with pytest.raises(ValueError, match=r"train_pieces\.pkl is not a readable pickle"):
        find("pop-piano", tmp_path)


def test_events_become_notes_tempos_and_chords():
    score = score_of_events(disk.events())
    columns = ([0, 960, 1920, 2880], [480, 60] * 2, [60, 64] * 2, [80, 70] * 2, [0] * 4)
    assert score.notes == Notes(*columns)
    assert score.tempos.beats_per_minute.tolist() == [110, 110]
    assert [(m.onset_ticks, m.text) for m in score.markers] == [(0, "A_m7"), (1920, "A_m7")]
    as_text = [{**event, "value": str(event["value"])} for event in disk.events()[1]]
    assert score_of_events(([], as_text)).notes == score.notes


BAR, PITCH = {"name": "Bar", "value": None}, {"name": "Note_Pitch", "value": 60}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"Bar": 1}, r"does not hold \(bar positions"),
        (({}, 5), r"does not hold \(bar positions"),
        (([], [BAR, {"name": "Beat", "value": 16}]), "event 1 is Beat 16; expected 0 to 15"),
        (([], [BAR, {"name": "Tempo", "value": 1e400}]), "event 1 is Tempo inf"),
        (([], [BAR, PITCH, PITCH]), "event 2 is 'Note_Pitch'; expected .* Note_Velocity"),
    ],
)
def test_invalid_event_is_named_by_its_number(content: object, message: str):
    with pytest.raises(ValueError, match=message):
        score_of_events(content)


NUMBERS = [f"{number:03}" for number in range(2000)]


def test_split_of_a_name_is_stable_and_a_larger_fraction_only_adds_to_validation():
    # With another hash, sets prepared again would test on what models were trained on.
    halves = [split_of(name, {"validation": 0.5}) for name in ("001", "042", "097", "128", "909")]
    assert halves == ["validation"] * 4 + ["train"]
    splits = [split_of(name, {"validation": 0.05, "test": 0.1}) for name in NUMBERS]
    assert splits.count("validation") == pytest.approx(100, abs=30)
    assert splits.count("test") == pytest.approx(200, abs=40)
    for name in NUMBERS[:500]:
        small, large = (split_of(name, {"validation": share}) for share in (0.1, 0.3))
        assert large == "validation" or small == large


def test_opening_does_not_depend_on_key_and_resolution():
    piece = disk.piano(1, bars=8)
    notes = piece.notes
    higher = piece.replace(notes=notes.replace(pitch=notes.pitch + 5))
    assert len(opening(piece)) == 2
    assert opening(higher) == opening(piece.rescaled(96)) == opening(piece)
    assert not {*opening(piece)} & {*opening(disk.piano(2, bars=8))}
    swung = notes.replace(onset_ticks=notes.onset_ticks + notes.onset_ticks % 960 // 4)
    assert len({*opening(piece)} & {*opening(piece.replace(notes=swung))}) == 1
    repeated = notes.replace(pitch=np.full_like(notes.pitch, 60))
    assert opening(piece.replace(notes=repeated)) == []
    assert opening(disk.piano(1, bars=2)) == []  # eight onsets


def test_works_that_share_a_key_share_a_split():
    random = np.random.default_rng(1)
    works = [[f"line {random.integers(400)}", f"title {random.integers(400)}"] for _ in range(300)]
    names = [f"n{random.integers(200)}" for _ in works]
    of_key: dict[str, set[str]] = {}
    found = split_works(names, works, 0.2, by_name=False)
    for name, keys, split in zip(names, works, found, strict=True):
        for key in (name, *keys):
            of_key.setdefault(key, set()).add(split)
    assert all(len(splits) == 1 for splits in of_key.values())


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (5, 1), (7, 1), (10, 2), (50, 10)])
def test_exactly_a_fraction_of_works_is_held_out(count: int, held_out: int):
    names = [f"n{n // 2}" for n in range(2 * count)]  # two files of each work
    found = split_works(names, [()] * len(names), 0.2, by_name=False, exactly=True)
    assert found[::2] == found[1::2]
    assert (found.count("validation"), found.count("train")) == (
        2 * held_out,
        2 * (count - held_out),
    )


ENSEMBLE = language("ensemble")


def names_of(found: list[Score]) -> list[list[str]]:
    return [[track.name for track in one.tracks] for one in found]


def test_styles_of_sources_are_in_the_language():
    named = {name: source.style for name, source in SOURCES.items()}
    assert {*named.values()} <= {*ENSEMBLE.beginnings()["style"], None}
    assert named["midi"] is None


def test_arrangements_of_a_song_have_the_same_notes():
    tracks = (Track("MELODY"), Track("BRIDGE"), Track("PIANO"))
    band = disk.band(names=("Piano", "Guitar", "Strings")).replace(tracks=tracks)
    found = arrangements(ENSEMBLE.arrange(band))
    assert names_of(found) == [["MELODY", "BRIDGE", "PIANO"], ["MELODY", "PIANO"], ["Piano"]]
    for one in found:
        assert np.array_equal(np.sort(one.notes.pitch), np.sort(band.notes.pitch))
        assert one.markers == ENSEMBLE.arrange(band).markers
    duo = disk.band(names=("Piano", "Guitar"))
    ways = arrangements(duo.replace(tracks=tracks[::2]))
    assert names_of(ways) == [["MELODY", "PIANO"], ["Piano"]]
    assert joined(duo, [[0], [], [1]]) == []  # each track is alone


def test_lied_has_a_voice_and_two_staves_of_piano(tmp_path: Path):
    high = note("C", 5, 8, "<staff>1</staff>") + "<backup><duration>8</duration></backup>"
    hands = bars(*(high + note(step, 3, 8, "<staff>2</staff>") for step in "CDEF"))
    listed = "".join(
        f'<score-part id="P{n}"><part-name>{name}</part-name><score-instrument id="I{n}"/><midi-instrument id="I{n}">'
        f"<midi-program>{program}</midi-program></midi-instrument></score-part>"
        for n, (name, program) in enumerate((("Singstimme", 69), ("Piano", 1)), 1)
    )
    voice = bars(*(note(step, 4, 8) for step in "GABC"))
    (tmp_path / "lc1.mxl").write_bytes(compressed(score(voice, hands, listed=listed)))
    lieder = SOURCES["lieder"]
    found = lieder.scores(lieder.find(list_files(tmp_path), 0.05).pieces[0], ENSEMBLE)
    whole = ["Singstimme", "Piano", "Piano (staff 2)"]
    assert names_of(found) == [whole, ["Singstimme", "Piano"], ["Piano"]]
    assert [track.program for track in found[0].tracks] == [52, 0, 0]
    assert all(FLAT in ENSEMBLE.encode(one).ids for one in found)  # the score has no dynamics


@pytest.mark.parametrize(
    ("name", "make", "works"),
    [
        ("orchestra", disk.orchestra, "Beach_Op.32 Haydn_104 Beach_Op.32"),
        ("open-hymnal", disk.open_hymnal, "Ode Old_100th Old_100th"),
        ("madrigals", disk.madrigals, "0 1 2"),
        ("freedoom", disk.freedoom, "d_dm10 d_e1m1 d_dm10"),
        ("free-music", disk.free_music, "Faith Faith Fate"),
        ("dance-tunes", disk.dance_tunes, "AnacCuan AnacCuan"),
    ],
)
def test_versions_of_a_work_are_known_by_their_names(name: str, make, works: str, tmp_path: Path):
    found = find(name, make(tmp_path / "above"), 0.5)
    assert [piece.work for piece in found.pieces] == works.split()
    splits_of: dict[str, set[str]] = {}
    for piece in found.pieces:
        splits_of.setdefault(piece.work, set()).add(piece.split)
    assert all(len(splits) == 1 for splits in splits_of.values())


def orchestra(*parts: dict[int, int], programs: tuple[int, ...] = ()) -> Score:
    """Return a score with the pitches of each part by beat."""
    notes = [
        Notes(
            np.array([*part]) * 480,
            [480] * len(part),
            [*part.values()],
            [80] * len(part),
            [n] * len(part),
        )
        for n, part in enumerate(parts)
    ]
    named = programs or (40,) * len(parts)
    return disk.piece(
        notes, tuple(Track(f"part {n}", program) for n, program in enumerate(named)), 120.0
    )


def test_doubling_parts_are_merged_and_no_pitch_is_lost():
    beats = range(16)
    melody = {beat: 72 + beat % 5 for beat in beats}
    low = {beat: 48 + beat % 3 for beat in beats}
    octave = {beat: pitch - 12 for beat, pitch in melody.items()} | {15: 43}  # one note of its own
    few = {3: 65}
    before = orchestra(octave, melody, low, few)
    three, two = (with_fewer_parts(before, most) for most in (3, 2))
    assert [np.count_nonzero(three.notes.track == n) for n in range(4)] == [0, 17, 16, 1]
    assert sorted({*two.notes.track.tolist()}) == [1, 2]
    for after in (three, two):
        sounds = [
            {(t, p % 12) for t, p in zip(s.notes.onset_ticks, s.notes.pitch, strict=True)}
            for s in (before, after)
        ]
        assert sounds[0] == sounds[1]
        mine = after.notes[after.notes.track == 1]
        assert {*zip((mine.onset_ticks // 480).tolist(), mine.pitch.tolist(), strict=True)} >= {
            *melody.items()
        }
    assert with_fewer_parts(before, 4).notes == before.notes


def test_no_highest_note_is_lost_and_timpani_get_no_notes():
    random = np.random.default_rng(0)
    line = random.integers(60, 90, 16)
    parts = [
        {
            beat: int(line[beat] + 12 * random.integers(-1, 2))
            for beat in range(16)
            if random.random() < 0.8
        }
        for _ in range(8)
    ]
    before = orchestra(*parts, programs=(40, 41, 42, 73, 68, 71, 56, 47))
    after = with_fewer_parts(before, 3)
    assert len({*after.notes.track.tolist()}) == 3
    assert np.count_nonzero(after.notes.track == 7) in (0, len(parts[7]))
    top = [
        [one.notes.pitch[one.notes.onset_ticks == beat * 480].max() for beat in range(16)]
        for one in (before, after)
    ]
    assert top[0] == top[1]


def test_a_part_joins_one_of_its_instrument():
    beats = range(8)
    high, other = ({beat: first + beat for beat in beats} for first in (84, 60))
    second = {beat: 60 + beat for beat in range(6)} | {
        6: 50,
        7: 51,
    }  # doubles all others but for two notes
    found = with_fewer_parts(orchestra(high, other, second, other, programs=(73, 42, 40, 40)), 3)
    assert np.count_nonzero(found.notes.track == 2) + np.count_nonzero(found.notes.track == 3) == 10
    assert np.count_nonzero(found.notes.track == 1) == 8


def test_singers_of_an_orchestra_are_known_by_their_names(tmp_path: Path):
    listed = "".join(
        f'<score-part id="P{n}"><part-name>{name}</part-name><score-instrument id="I{n}"/><midi-instrument id="I{n}">'
        f"<midi-program>{program}</midi-program></midi-instrument></score-part>"
        for n, (name, program) in enumerate(
            (("Alto solo", 72), ("Alto Trombone", 58), ("Bass 2", 58)), 1
        )
    )
    parts = (bars(*(note(step, 4, 8) for step in "CDE")) for _ in range(3))
    (tmp_path / "Bach_BWV.1_1.mxl").write_bytes(compressed(score(*parts, listed=listed)))
    [found] = scores("orchestra", tmp_path, "ensemble")
    assert [track.program for track in found.tracks] == [52, 57, 52]


def test_a_hymn_has_four_voices(tmp_path: Path):
    [found] = scores("open-hymnal", disk.open_hymnal(tmp_path), "ensemble")
    assert [(track.name, track.program) for track in found.tracks] == [
        ("Soprano", 52), ("Alto", 52), ("Tenor", 52), ("Bass", 52),
    ]  # fmt: skip
    disk.hymn(tmp_path / "A-B.abc", *["CDEF|"] * 3)
    with pytest.raises(ValueError, match="it has 3 voices, not 4"):
        scores("open-hymnal", tmp_path, "ensemble")


def test_madrigals_are_read_in_half_the_note_values_and_scans_left_out(tmp_path: Path):
    disk.madrigals(tmp_path)
    (tmp_path / "scan.xml").write_bytes((tmp_path / "0.musicxml").read_bytes())
    [skipped] = find("madrigals", tmp_path).skipped
    assert (skipped.name, "octave" in skipped.reason) == ("scan.xml", True)
    [found] = scores("madrigals", tmp_path, "ensemble")
    assert (found.meters.numerator.tolist(), found.meters.denominator.tolist()) == ([2], [2])
    assert {*(found.notes.duration_ticks / found.ticks_per_beat).tolist()} == {4.0}
    assert found.tempos.beats_per_minute.tolist() == [60]  # of an assumed 120


def test_a_dance_tune_is_its_melody_for_an_instrument_that_can_play_it(tmp_path: Path):
    disk.dance_tunes(tmp_path)
    for number, (track, lowest) in enumerate((("Fiddle", 57), ("Flute", 66))):
        [found] = scores("dance-tunes", tmp_path, "ensemble", number)
        assert [one.name for one in found.tracks] == [track]
        assert found.notes.pitch.min() >= lowest
        assert len(found.notes) == 16


@pytest.mark.parametrize("name", ["freedoom", "free-music"])
def test_tracks_of_bands_that_hold_only_a_text_are_left_out(name: str, tmp_path: Path):
    silent = (*disk.band().tracks, Track("composed by nobody"))
    disk.put(tmp_path / "d_silent.mid", disk.band().replace(tracks=silent))
    [found] = scores(name, tmp_path, "ensemble")
    assert [track.name for track in found.tracks] == ["Bass", "Drums", "Piano", "Guitar"]
