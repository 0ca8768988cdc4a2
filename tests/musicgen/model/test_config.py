"""The configuration of a model."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from musicgen.attention.features import FEATURES
from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer, parameter_count
from musicgen.position import POSITIONS


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("features", FEATURES)
def test_json_and_yaml_round_trip(position: str, features: str) -> None:
    config = ModelConfig(vocabulary_size=7, position=position, features=features)
    assert ModelConfig.read(json.loads(json.dumps(config.plain()))) == config
    assert ModelConfig.read(yaml.safe_load(yaml.safe_dump(config.plain()))) == config
    assert (config.position_name, config.features_name) == (position, features)


def test_a_nested_part_may_be_a_name_a_mapping_or_itself() -> None:
    by_name = ModelConfig(vocabulary_size=7, position="rope")
    assert ModelConfig(vocabulary_size=7, position={"name": "rope"}) == by_name
    assert ModelConfig(vocabulary_size=7, position=by_name.position) == by_name


@pytest.mark.parametrize("registry", [POSITIONS, FEATURES])
def test_a_config_class_has_one_name(registry: dict[str, Any]) -> None:
    assert len({config for config, _ in registry.values()}) == len(registry)


@pytest.mark.parametrize(("preset", "millions"), [("paper", 76.0), ("small", 19.1), ("tiny", 1.28)])
def test_presets_have_the_size_they_say(preset: str, millions: float) -> None:
    model = Performer(ModelConfig.preset(preset, vocabulary_size=333), seed=None)
    assert parameter_count(model) / 1e6 == pytest.approx(millions, rel=0.005)


def test_a_preset_takes_overrides() -> None:
    config = ModelConfig.preset("tiny", vocabulary_size=5, position="rope", dropout=0.0)
    assert (config.layers, config.position_name, config.dropout) == (6, "rope", 0.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"witdh": 8}, r"^file.yaml has an unknown key 'witdh' \(did you mean 'width'\?\)"),
        (
            {"position": "ropes"},
            r"position 'ropes' is unknown \(did you mean 'rope'\?\); there are absolute",
        ),
        (
            {"position": {"name": "rope", "bsae": 2.0}},
            r"position 'rope' has an unknown key 'bsae' .*'base'",
        ),
        ({"horizons": [8]}, r"horizons are \[8.0\]; give the shortest and the longest, in tokens"),
        ({"horizons": [8, 2]}, r"horizons are \[8.0, 2.0\]; give the shortest and the longest"),
        ({"horizons": [8, 64], "attention": "softmax"}, r"softmax attention remembers everything"),
        ({"position": {"base": 2.0}}, r"position is .* where a name, or a mapping with a name"),
        ({"features": 3}, r"features is 3, where a name"),
        ({"width": 100, "heads": 8}, r"width 100 does not divide into 8 heads; 96 would"),
        ({"width": "big"}, r"file.yaml: width is 'big', where a whole number"),
        ({"layers": 0}, r"layers is 0; it must be at least 1"),
        ({"norm": "middle"}, r"norm is 'middle'; it must be one of pre, post"),
        ({"backend": "fast"}, r"backend is 'fast'; it must be one of "),
        ({"dropout": 1.0}, r"dropout is 1.0"),
        ({"initial_deviation": -1}, r"initial_deviation is -1.0; it must be 0 or more"),
        (
            {"attention": "softmax", "position": "permuteformer"},
            r"'permuteformer' acts on the features",
        ),
        ({"vocabulary_size": None}, r"vocabulary_size is None"),
    ],
)
def test_what_is_wrong_is_one_sentence(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ModelConfig.read({"vocabulary_size": 7, **values}, "file.yaml")
    assert "\n" not in str(caught.value)


def test_unknown_presets_and_missing_sizes_are_named() -> None:
    with pytest.raises(ValueError, match=r"no preset 'papers' \(did you mean 'paper'\?\)"):
        ModelConfig.preset("papers", vocabulary_size=7)
    with pytest.raises(ValueError, match=r"preset paper is incomplete: .*vocabulary_size"):
        ModelConfig.preset("paper")


def test_only_stochastic_encodings_have_realisations() -> None:
    stochastic = ModelConfig(vocabulary_size=7, position="sine_spe").with_realisations(8)
    assert stochastic.position.realisations == 8
    with pytest.raises(ValueError, match="'rope' is not stochastic"):
        ModelConfig(vocabulary_size=7, position="rope").with_realisations(8)
