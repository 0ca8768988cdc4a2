from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources import on_disk as disk
from tests.training.makers import Heard, prepared_set, toy_config, toy_run
from tokenization.formats import write_score
from tokenization.groove.language import Groove
from tokenization.groove.spelling import DRUMS
from tokenization.prepared import Prepared
from training.config import DataConfig
from training.data.batches import Batches
from training.data.prepare import PrepareOptions, prepare
from training.data.shards import Shards


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("parts")
    sizes = ((3, 1), (2, 3))
    return [
        str(prepared_set(folder / str(i), "groove", train=train, held_out=held_out, first=9 * i))
        for i, (train, held_out) in enumerate(sizes)
    ]


def test_one_set_is_itself(parts: list[str]):
    shards, prepared = Shards(parts[:1]), Prepared.open(parts[0])
    assert shards.checksum == prepared.meta["checksum"]
    assert shards.counts == prepared.meta["counts"]
    np.testing.assert_array_equal(shards.rows("train"), prepared.rows("train"))
    np.testing.assert_array_equal(shards.file, prepared.pieces.file)


def test_rows_of_several_sets_stand_end_to_end(parts: list[str]):
    shards, sets = Shards(parts), [Prepared.open(part) for part in parts]
    assert len(shards.length) == sum(len(one) for one in sets)
    numbered = [(one, row) for one in sets for row in range(len(one))]
    for row, (one, own) in enumerate(numbered):
        np.testing.assert_array_equal(shards.ids(row), one.ids(own))
        np.testing.assert_array_equal(shards.bars(row), one.bars(own))
        assert shards.length[row] == len(shards.ids(row))
    for split in ("train", "validation"):
        expected = [row for row, (one, own) in enumerate(numbered) if own in one.rows(split)]
        assert shards.rows(split).tolist() == expected
    assert sorted(set(shards.file)) == list(range(9))
    assert shards.counts["train"]["files"] == 5
    assert (shards.described("title"), shards.described("licence")) == ("test pieces", "MIT")
    assert shards.checksum != Shards(parts[::-1]).checksum


def test_a_set_that_is_named_twice_is_trained_on_twice_and_held_out_once(parts: list[str]):
    once, twice = Shards(parts), Shards([parts[0], *parts])
    assert len(twice.rows("train")) == len(once.rows("train")) + len(
        Shards(parts[:1]).rows("train")
    )
    assert [twice.ids(row).tolist() for row in twice.rows("validation")] == [
        once.ids(row).tolist() for row in once.rows("validation")
    ]
    assert twice.counts == once.counts
    batches = Batches(DataConfig(folder=(parts[0], *parts), length=16), 0)
    assert (batches.steps(None, 1.0), len(batches.validation(99, 16))) == (2, 4)


def test_a_run_trains_on_several_sets_as_one(parts: list[str], tmp_path: Path):
    run = toy_run(toy_config(tmp_path, Path("unused"), data={"folder": parts}))
    assert run.batches.steps(None, 4.0) == 5
    run.fit(Heard())
    assert run.state.data == Shards(parts).checksum


def test_sets_of_two_languages_are_refused(parts: list[str], pianos: Path):
    with pytest.raises(
        ValueError, match=r"is in another language than .*: remi in its version, not"
    ):
        Shards([*parts, str(pianos)])
    with pytest.raises(ValueError, match="no data set is named"):
        Shards([])


def prepared(source: str, folder: Path, destination: Path) -> str:
    prepare(source, folder, destination, PrepareOptions(workers=0))
    return str(destination)


def test_grooves_are_trained_on_beside_songs_and_human_drums(tmp_path: Path):
    folders = [
        prepared(name, maker(tmp_path / name), tmp_path / "data" / name)
        for name, maker in (
            ("groove", disk.groove),
            ("groove-songs", disk.groove_songs),
            ("human-drums", disk.human_drums),
        )
    ]
    config = DataConfig(folder=folders, length=64, batch=8, mix_drums=1.0)  # type: ignore[arg-type]
    batches = Batches(config, seed=3)
    licences = batches.shards.described("licence")
    for part in ("not stated", "MMA (GPL-2.0-or-later)", "CC BY 4.0, Google LLC", "changed: "):
        assert part in licences
    # Drums come from all of the sets: those of people, which are of four kinds here, beside a bass.
    groove, mixed = Groove(), 0
    for step in range(20):
        for ids in batches.batch(step):
            notes = groove.notes(ids[ids >= 0].astype(np.uint16))
            drums = notes.pitch[notes.track == DRUMS]
            mixed += 6 <= len(drums) < len(notes) and {*drums.tolist()} <= {36, 38, 42, 46}
    assert mixed


def test_a_style_that_is_held_out_may_not_come_in_by_another_set(tmp_path: Path):
    grooves = prepared("groove", disk.groove(tmp_path / "groove"), tmp_path / "data" / "groove")
    for number, style in enumerate("cdx"):  # `groove` holds out c and d
        source = tmp_path / style
        songs = disk.groove_songs(source)
        (songs / "train" / "bb0000.a_a1.mid").rename(
            songs / "train" / f"bb{number:04d}.lib{style}_other.mid"
        )
        folders = [prepared("groove-songs", songs, tmp_path / "data" / style), grooves]
        if style == "x":
            assert len(Shards(folders).sets) == 2
            continue
        for order in (folders, folders[::-1]):
            with pytest.raises(
                ValueError,
                match=rf"data.{style} trains on the style lib{style}, which .*groove holds",
            ):
                Shards(order)


def test_a_piece_that_is_held_out_may_not_come_in_by_another_set(tmp_path: Path):
    sizes = {"here": (3, 1), "there": (2, 2)}  # there piece2 is held out, which is trained on here
    folders = [
        str(prepared_set(tmp_path / name, "groove", train=train, held_out=held_out))
        for name, (train, held_out) in sizes.items()
    ]
    for order in (folders, folders[::-1]):
        with pytest.raises(ValueError, match=r"here trains on piece2, which .*there holds out as"):
            Shards(order)
    assert len(Shards(folders[:1] * 2).sets) == 2


def test_a_work_that_is_held_out_may_not_come_in_by_another_edition(tmp_path: Path):
    options = PrepareOptions(workers=0, language="ensemble", validation=0.45)
    for number in range(24):
        path = tmp_path / "here" / f"{number}.mid"
        path.parent.mkdir(exist_ok=True)
        write_score(path, disk.piano(number, bars=8))
    prepare("midi", tmp_path / "here", tmp_path / "a", options)
    one = Prepared.open(tmp_path / "a")
    name = one.name(one.rows("test")[0])
    edition = disk.piano(int(name.removesuffix(".mid")), bars=8)
    edition = edition.replace(notes=edition.notes.replace(pitch=edition.notes.pitch + 1))
    (tmp_path / "there").mkdir()
    write_score(tmp_path / "there" / "edition.mid", edition)
    prepare("midi", tmp_path / "there", tmp_path / "b", options)
    assert len(Prepared.open(tmp_path / "b").rows("test"))  # the same, wherever it lies
    Shards([str(tmp_path / "a"), str(tmp_path / "b")])

    options = PrepareOptions(workers=0, language="ensemble", validation=0)
    prepare("midi", tmp_path / "there", tmp_path / "c", options)
    with pytest.raises(ValueError, match=f"c trains on edition.mid, which .* holds out as {name}"):
        Shards([str(tmp_path / "a"), str(tmp_path / "c")])
