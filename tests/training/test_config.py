from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from musicgen.performer import Performer
from tokenization.language import language
from training.config import CONFIGS, find, merged, read, shipped_names

SMALL = {"layers": 1, "width": 32, "heads": 2, "feedforward": 32}


def write(path: Path, text: str = "", **values) -> Path:
    path.write_text(text or yaml.safe_dump(values))
    return path


def minimal(tmp_path: Path, **changes) -> Path:
    values = {"data": {"folder": "d"}, "optimiser": {"steps": 1}, "model": {"preset": "tiny"}}
    return write(tmp_path / "run.yaml", **{**values, **changes})


def test_every_shipped_configuration_builds_a_model():
    built = set()
    for name in shipped_names():
        config = read(find(name))
        if config.start is not None:  # a trained model as it is
            continue
        has_goals = (config.model or {}).get("goals")
        target = language("ensemble" if has_goals else "groove" if "groove" in name else "remi")
        size = len(target.vocabulary)
        wanted = config.model_config(size, target)
        assert wanted.shape()
        smaller = replace(config, model={**config.model, **SMALL}).model_config(size, target)
        assert smaller.position_name == wanted.position_name
        assert Path(name).name in config.run
        if str(smaller) not in built:
            built.add(str(smaller))
            Performer(smaller)
    assert len(built) > 30


def test_features_are_redrawn_at_random_or_at_intervals(tmp_path: Path):
    by_chance = read(minimal(tmp_path), ["optimiser.redraw=0.05"]).optimiser
    assert [by_chance.redraws(7, drawn) for drawn in (0.04, 0.06)] == [True, False]
    at_interval = read(minimal(tmp_path), ["optimiser.redraw_every=40"]).optimiser
    assert [step for step in range(100) if at_interval.redraws(step, 0.0)] == [0, 40, 80]


def test_file_overrides_its_base(tmp_path: Path):
    minimal(tmp_path, model={"preset": "tiny", "position": {"name": "rope", "base": 5.0}})
    (tmp_path / "deep").mkdir()
    changes = {"data": {"batch": 7}, "model": {"position": {"name": "absolute"}}}
    child = write(tmp_path / "deep" / "child.yaml", base="../run.yaml", **changes)
    config = read(child, ["data.batch=9", "optimiser.learning_rate=3e-4"])
    assert (config.data.folder, config.data.batch, config.run) == ("d", 9, "runs/child")
    assert config.model == {"preset": "tiny", "position": {"name": "absolute"}}
    assert config.optimiser.learning_rate == 3e-4
    assert merged({"steps": 5, "x": 1}, {"epochs": 2}) == {"x": 1, "epochs": 2}
    assert merged({"epochs": 5}, {"steps": 2}) == {"steps": 2}
    assert merged({"epochs": 5}, {"steps": None}) == {"epochs": 5, "steps": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.lenght=3"], r"unknown key 'lenght' \(did you mean 'length'\?\)"),
        (["data.length=0"], "length is 0; it must be at least 1"),
        (["data.batch=[1"], r"--set data.batch=\[1 is not YAML"),
        (["optimiser.steps=0"], "steps is 0; it must be above 0"),
        (["optimiser.redraw=1.5"], "redraw is 1.5; it must be 0 to 1"),
        (["optimiser.learning_rate=.nan"], "learning_rate is nan; it must be finite"),
        (["device.accelerator=tpu"], "accelerator is 'tpu'; it must be one of auto, cpu, cuda"),
        (["model.preset=huge"], "there is no preset 'huge'"),
        (["model.position=flt", "model.features=relu"], "would mean nothing; choose features:"),
    ],
)
def test_invalid_key_or_value_is_named(tmp_path: Path, changes: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        read(minimal(tmp_path), changes).model_config(9)


def test_text_values_are_not_cut_off(tmp_path: Path):
    config = read(minimal(tmp_path), ["data.folder=My songs #1", "run='take #2'"])
    assert (config.data.folder, config.run) == ("My songs #1", "take #2")
    assert read(minimal(tmp_path), ["run=take#2"]).run == "take#2"
    assert read(minimal(tmp_path), ["run=take\udcff"]).run == "take\udcff"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "does not hold a mapping"),
        ("base: text.yaml", "is its own base"),
        ("base: gone.yaml", r"there is no configuration .*gone\.yaml"),
    ],
)
def test_unreadable_file_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(write(tmp_path / "text.yaml", text))


def test_configuration_is_found_by_path_name_or_run(tmp_path: Path):
    assert find("groove-rope") == CONFIGS / "groove-rope.yaml"
    assert find("models/ensemble") == CONFIGS / "models" / "ensemble.yaml"
    assert find(str(minimal(tmp_path))) == tmp_path / "run.yaml"
    (tmp_path / "config.yaml").touch()
    assert find(str(tmp_path)) == tmp_path / "config.yaml"


def test_each_variant_in_a_file_is_a_configuration(tmp_path: Path):
    variants = {"deep": {"model": {"layers": 3}}, "deep-wide": {"base": "deep", "seed": 4}}
    file = minimal(tmp_path, seed=2, variants=variants).rename(tmp_path / "my-own.yaml")
    config = read(tmp_path / "my-own-deep-wide.yaml")
    assert (config.model, config.seed) == ({"preset": "tiny", "layers": 3}, 4)
    assert config.run == "runs/my-own-deep-wide"
    child = write(tmp_path / "child.yaml", base="my-own-deep.yaml", seed=5)
    assert read(child) == replace(read(tmp_path / "my-own-deep.yaml"), seed=5, run="runs/child")
    with pytest.raises(ValueError, match="name one of them: my-own-deep, my-own-deep-wide"):
        read(file)
    write(file, variants={"deep": 3})
    with pytest.raises(ValueError, match="variants must be a mapping of names"):
        read(file)
