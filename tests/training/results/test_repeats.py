import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from musicgen.storage import checkpoint
from musicgen.storage.checkpoint import Card
from tests.musicgen.toys import toy_model
from tests.training.makers import toy_config
from training.results.comparison import Compared, repeated, without_encoding


def runs(name: str, *losses: float) -> list[Compared]:
    return [Compared(name=name, inside=x, beyond=x + 1, parameters=7, steps=3) for x in losses]


def test_means_have_students_interval_and_changes_are_paired_by_seed():
    found = {"none": runs("none", 1.0, 2.0, 3.0), "rope": runs("rope", 0.9, 1.8, 3.0)}
    none, rope = repeated(found, {"rope": "none"})
    assert (none.seeds, none.inside, none.beyond, none.against) == (3, 2.0, 3.0, "")
    assert none.inside_interval == pytest.approx(4.302653 / 3**0.5)  # t of two degrees of freedom
    assert none.change is None
    assert rope.against == "none"
    assert rope.change == pytest.approx(-0.1)
    assert rope.change_interval == pytest.approx(4.302653 * 0.1 / 3**0.5)
    assert rope.change_beyond == pytest.approx(-0.1)


def test_a_seed_that_failed_on_either_side_makes_no_pair():
    broken = Compared(name="rope", failed="the loss was not finite")
    found = {"none": runs("none", 1, 2, 3), "rope": [*runs("rope", 1), broken, *runs("rope", 5)]}
    rope = repeated(found, {"rope": "none"})[1]
    assert (rope.seeds, rope.inside, rope.change) == (2, 3.0, 1.0)
    assert rope.failed == "the loss was not finite"
    alone = repeated({"rope": [broken]}, {})[0]
    assert (alone.seeds, alone.inside, alone.failed) == (0, None, "the loss was not finite")


def test_one_seed_has_no_interval():
    (one,) = repeated({"rope": runs("rope", 1.5)}, {})
    assert (one.inside, one.inside_interval) == (1.5, None)


def test_no_encoding_is_found_where_all_else_is_the_same(tmp_path: Path):
    def config(position: object, **model: object):
        return toy_config(tmp_path, tmp_path, model={"position": position, **model})

    configs = {
        "none": config("none"),
        "rope": config("rope"),
        "sine": config({"name": "sine_spe", "realisations": 4}),
        "none-wide": config({"name": "none"}, width=32),
        "rope-wide": config("rope", width=32),
        "rope-deep": config("rope", layers=2),
    }
    assert without_encoding(configs) == {
        "rope": "none", "sine": "none", "rope-wide": "none-wide",
    }  # fmt: skip


def test_a_start_brings_its_encoding_unless_another_is_named(tmp_path: Path):
    for name in ("rope", "none"):
        card = Card(name=name, language={}, trained_length=32)
        checkpoint.save(tmp_path / name, toy_model(position={"name": name}), card)

    def config(start: str, **model: object):
        plain = toy_config(tmp_path, tmp_path)
        return replace(plain, start=str(tmp_path / start), model=model or None)

    on, spe = config("rope"), config("rope", position={"name": "sine_spe"})
    none = config("rope", position="none")
    assert without_encoding({"on": on, "spe": spe}) == {}
    assert without_encoding({"on": on, "none": none}) == {"on": "none"}
    assert without_encoding({"none": none, "on": on, "spe": spe}) == {"on": "none", "spe": "none"}
    bare, added = config("none"), config("none", position="rope")
    assert without_encoding({"bare": bare, "added": added}) == {"added": "bare"}
    shutil.rmtree(tmp_path / "rope")  # as it may be once the runs have saved
    assert without_encoding({"on": on, "spe": spe, "none": none}) == {"spe": "none"}
