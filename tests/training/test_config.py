from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from musicgen.model.performer import Performer
from tokenization.language import language
from training.config import CONFIGS, find, merged, read, shipped_names

SMALL = {"layers": 1, "width": 32, "heads": 2, "feedforward": 32}


def write(path: Path, text: str = "", **values) -> Path:
    path.write_text(text or yaml.safe_dump(values))
    return path


def minimal(tmp_path: Path, **changes) -> Path:
    values = {"data": {"folder": "d"}, "optimiser": {"steps": 1}, "model": {"preset": "tiny"}}
    return write(tmp_path / "run.yaml", **{**values, **changes})


def test_every_shipped_configuration_loads_and_builds_a_toy():
    built = set()
    for name in shipped_names():
        if name == "finetune":  # a trained model as it is
            continue
        config = read(find(name))
        told = (config.model or {}).get("goals")
        spoken = language("ensemble" if told else "groove" if "groove" in name else "remi")
        size = len(spoken.vocabulary)
        wanted = config.model_config(size, spoken)
        assert wanted.shape()
        smaller = replace(config, model={**config.model, **SMALL}).model_config(size, spoken)
        assert smaller.position_name == wanted.position_name
        assert Path(name).name in config.run
        if str(smaller) not in built:
            built.add(str(smaller))
            Performer(smaller)
    assert len(built) > 30


def test_values_of_the_papers_are_there():
    pop, groove = read(find("pop-piano-sine-spe")), read(find("groove-conv-spe"))
    assert (pop.data.length, pop.data.batch, pop.data.transpose) == (2048, 4, 6)
    assert pop.model["position"] == {"name": "sine_spe", "realisations": 64, "sines": 5}
    assert pop.optimiser.learning_rate == 2e-4
    assert read(find("pop-piano-absolute")).optimiser.learning_rate == 1e-4
    assert (groove.data.length, groove.data.batch, groove.data.drop_track) == (512, 10, 0.1)
    assert (groove.optimiser.learning_rate, groove.optimiser.epochs) == (4e-4, 24)
    assert groove.model["position"] == {"name": "conv_spe", "realisations": 64, "taps": 128}
    ungated = read(find("pop-piano-conv-spe-ungated")).model_config(333)
    assert (ungated.position.taps, ungated.position.gated) == (512, False)
    assert (ungated.layers, ungated.width, ungated.features.features) == (24, 512, 128)


@pytest.mark.parametrize("folder", ["headline", "headline-full"])
def test_headline_differs_in_the_encoding_alone(folder: str):
    """As the paper's: deep, FAVOR+, normalised after a branch; nothing of ours that knows order; measured to 4 N."""
    shown = [name for name in shipped_names() if name.startswith(f"{folder}/")]
    configs = [read(find(name), ["model.preset=tiny"]) for name in shown]
    names = {(c.model["position"]["name"], c.model["position"].get("gated")) for c in configs}
    spe = {(name, gated) for name in ("conv_spe", "sine_spe") for gated in (None, False)}
    assert names - {("rope", None)} == {("absolute", None), ("none", None), *spe}
    rest, remi = [], language("remi")
    for config in configs:
        built = config.model_config(len(remi.vocabulary), remi)
        assert (built.layers, built.norm, built.activation) == (24, "post", "relu")
        assert (built.features_name, built.horizons, built.metre) == ("favor", None, None)
        assert config.validation.length == 4 * config.data.length
        rest.append({**asdict(config), "run": "", "model": {**config.model, "position": None}})
    assert all(one == rest[0] for one in rest)


def test_features_are_redrawn_by_chance_or_at_an_interval(tmp_path: Path):
    by_chance = read(minimal(tmp_path), ["optimiser.redraw=0.05"]).optimiser
    assert [by_chance.redraws(7, drawn) for drawn in (0.04, 0.06)] == [True, False]
    at_interval = read(minimal(tmp_path), ["optimiser.redraw_every=40"]).optimiser
    assert [step for step in range(100) if at_interval.redraws(step, 0.0)] == [0, 40, 80]


def test_file_states_what_differs_from_its_base(tmp_path: Path):
    minimal(tmp_path, model={"preset": "tiny", "position": {"name": "rope", "base": 5.0}})
    (tmp_path / "deep").mkdir()
    child = write(
        tmp_path / "deep" / "child.yaml",
        base="../run.yaml",
        data={"batch": 7},
        model={"position": {"name": "absolute"}},
    )
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
        (["data.length=soon"], "data: length is 'soon', where a whole number is wanted"),
        (["data.length=0"], "length is 0; it must be at least 1"),
        (["data.batch"], "--set data.batch has no key and value; write it as key=value"),
        (["data.batch=[1"], r"--set data.batch=\[1 is not YAML"),
        (["data.skip_chance=2"], "skip_chance is 2.0; it must be from 0 to 1"),
        (["optimiser.steps=0"], "more than 0 is needed"),
        (["optimiser.steps="], "either steps or epochs"),
        (["optimiser.redraw=1.5"], "redraw is 1.5; it lies between 0 and 1"),
        (["optimiser.beta2=1"], "beta2 is 1.0; it lies from 0 to below 1"),
        (["optimiser.redraw_every=5", "data.windows=2"], "would draw new features amid a sequence"),
        (["optimiser.cosine_epochs=0"], "cosine_epochs is 0.0; it must be above 0"),
        (["optimiser.learning_rate=.nan"], "learning_rate is nan, where a number is wanted"),
        (["optimiser.learning_rate=0.0"], "learning_rate is 0.0; it must be above 0"),
        (["optimiser.method=muon", "device.strategy=fsdp"], "in parts, and muon needs them whole"),
        ([f"seed={1 << 63}"], "seed is 9223372036854775808; it must be at least 0, of 63 bits"),
        (["device.accelerator=tpu"], "accelerator is 'tpu'; it must be one of auto, cpu, cuda"),
        (["keep=0"], "keep is 0; it must be at least 1"),
        (["model.preset=huge"], "there is no preset 'huge'"),
        (["model=tiny"], "model is 'tiny', where a mapping"),
        (
            ["model.position=flt", "model.features=relu"],
            "would mean nothing; choose features: favor",
        ),
    ],
)
def test_wrong_key_or_value_is_named(tmp_path: Path, changes: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        read(minimal(tmp_path), changes).model_config(9)


def test_text_is_taken_whole(tmp_path: Path):
    config = read(minimal(tmp_path), ["data.folder=My songs #1", "run='take #2'"])
    assert (config.data.folder, config.run) == ("My songs #1", "take #2")
    assert read(minimal(tmp_path), ["run=take#2"]).run == "take#2"
    assert read(minimal(tmp_path), ["run=take\udcff"]).run == "take\udcff"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "holds no mapping"),
        ("a: [1", "is not YAML"),
        ("base: text.yaml", "is its own base"),
        ("base: 3", "base is 3, where the path of a file is wanted"),
        ("base: gone.yaml", r"there is no configuration .*gone\.yaml"),
    ],
)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(write(tmp_path / "text.yaml", text))


def test_configuration_is_found_by_path_by_name_and_by_run(tmp_path: Path):
    assert find("groove-rope") == CONFIGS / "groove-rope.yaml"
    assert find("models/ensemble") == CONFIGS / "models" / "ensemble.yaml"
    assert find(str(minimal(tmp_path))) == tmp_path / "run.yaml"
    (tmp_path / "config.yaml").touch()
    assert find(str(tmp_path)) == tmp_path / "config.yaml"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("groove-ropes", "groove-rope"),
        ("ensemble", "models/ensemble"),
        ("qwxz", ""),
    ],
)
def test_unknown_name_is_told_what_is_like_it_and_where_to_look(name: str, meant: str):
    with pytest.raises(FileNotFoundError) as found:
        find(name)
    said = str(found.value)
    assert (f"did you mean {meant!r}" in said) == bool(meant)
    assert f"of the files in {CONFIGS}, with -VARIANT" in said
    assert len(said) < 320 + len(str(CONFIGS))


def test_file_of_variants_holds_a_configuration_for_each(tmp_path: Path):
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
    with pytest.raises(ValueError, match="variants are not a mapping of names"):
        read(file)
