"""Several prepared sets are trained on as one, and what one holds out is not trained on in another."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources import on_disk as disk
from tests.training.makers import prepared_set, toy_config
from tokenization.prepared import META_FILE, Prepared
from training.config import DataConfig
from training.data.batches import Batches
from training.data.prepare import PrepareOptions, prepare
from training.data.shards import Shards
from training.run_folder import plain


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("parts")
    first = prepared_set(folder / "0", "groove", train=3, held_out=1)
    second = prepared_set(folder / "1", "groove", train=2, held_out=3, first=9)
    return [str(first), str(second)]


def prepared(source: str, folder: Path, destination: Path, **changes) -> str:
    prepare(source, folder, destination, PrepareOptions(workers=0, **changes))
    return str(destination)


def test_rows_of_several_sets_are_concatenated(parts: list[str]):
    shards, sets = Shards(parts), [Prepared.open(part) for part in parts]
    numbered = [(one, row) for one in sets for row in range(len(one))]
    assert len(shards.length) == len(numbered)
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
    assert Shards(parts[:1]).checksum == sets[0].meta["checksum"]


def test_sets_in_two_languages_are_refused(parts: list[str], pianos: Path):
    with pytest.raises(ValueError, match=r"different languages \(remi, groove\)"):
        Shards([*parts, str(pianos)])
    with pytest.raises(ValueError, match="no data set is given"):
        Shards([])


def test_sets_of_an_earlier_version_are_read_in_the_latest_of_all(tmp_path: Path):
    old, new = (str(prepared_set(tmp_path / str(n), "ensemble", first=20 * n)) for n in (0, 1))
    [earlier] = Prepared.open(new).language.earlier()
    meta = Path(old, META_FILE)
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "language": earlier.spec()}))
    assert [Shards(sets).language["tokens"] for sets in ([old], [old, new], [new])] == [
        702,
        707,
        707,
    ]
    meta.write_text(meta.read_text().replace('"tokens": 702', '"tokens": 7'))
    with pytest.raises(ValueError, match=r"differs from that of this program in blocks, tokens$"):
        _ = Shards([old, new]).language


def test_sets_are_sampled_by_their_weights(parts: list[str], tmp_path: Path):
    weights = {parts[0]: 1.0, parts[1]: 2.0}
    settings = DataConfig(folder=weights, length=64, batch=4)
    batches, again = (Batches(settings, seed=1) for _ in range(2))
    np.testing.assert_array_equal(batches[200], again[200])
    random = np.random.default_rng(0)
    rows = np.array([batches._stream.row(number, random) for number in range(1024)])
    sets = batches.shards.set_of(rows)
    assert (sets == 1).sum() == 2 * 341  # of 2 × 512, rounded
    first = batches.shards.file[rows[sets == 0][:3]]
    assert len({*first.tolist()}) == 3  # each of its files once in its epoch
    with pytest.raises(ValueError, match="sets with weights have no common epoch"):
        batches.steps(None, 2.0)
    config = toy_config(tmp_path, Path(parts[0]), data={"folder": weights})
    assert plain(config)["data"]["folder"] == weights
    with pytest.raises(ValueError, match="each must be above 0"):
        DataConfig(folder={parts[0]: 0.0})


def refused(one: str, other: str, message: str) -> None:
    """Check that training on two sets together is refused, in either order."""
    for order in ([one, other], [other, one]):
        with pytest.raises(ValueError, match=message):
            Shards(order)


def test_held_out_style_is_refused_in_another_set(tmp_path: Path):
    grooves = prepared("groove", disk.groove(tmp_path / "groove"), tmp_path / "data" / "groove")
    for number, style in enumerate("cdx"):  # `groove` holds out c and d
        train = disk.groove_songs(tmp_path / style) / "train"
        (train / "bb0000.a_a1.mid").rename(train / f"bb{number:04d}.lib{style}_other.mid")
        songs = prepared("groove-songs", tmp_path / style, tmp_path / "data" / style)
        if style == "x":
            assert len(Shards([songs, grooves]).sets) == 2
            continue
        refused(songs, grooves, f"{style} trains on the style lib{style}, which .*groove holds")


def test_held_out_piece_is_refused_in_another_set(tmp_path: Path):
    here = str(prepared_set(tmp_path / "here", "groove", train=3, held_out=1))
    there = str(prepared_set(tmp_path / "there", "groove", train=2, held_out=2))  # holds out piece2
    refused(here, there, "here trains on piece2, which .*there holds out as")
    assert len(Shards([here, here]).sets) == 1


def test_held_out_work_is_refused_in_another_edition(tmp_path: Path):
    for number in range(24):
        disk.put(tmp_path / "here" / f"{number}.mid", disk.piano(number, bars=8))
    held_out = {"language": "ensemble", "validation": 0.45}
    here = prepared("midi", tmp_path / "here", tmp_path / "a", **held_out)
    one = Prepared.open(tmp_path / "a")
    name = one.name(one.rows("test")[0])
    edition = disk.piano(int(name.removesuffix(".mid")), bars=8)
    edition = edition.replace(notes=edition.notes.replace(pitch=edition.notes.pitch + 1))
    disk.put(tmp_path / "there" / "edition.mid", edition)
    there = prepared("midi", tmp_path / "there", tmp_path / "b", **held_out)
    assert len(Prepared.open(there).rows("test"))  # the same work in another set
    Shards([here, there])
    there = prepared("midi", tmp_path / "there", tmp_path / "c", language="ensemble", validation=0)
    refused(here, there, f"c trains on edition.mid, which .* holds out as {name}")
