"""The configuration of a model."""

import json
from typing import Any

import pytest
import yaml

from musicgen.config import ModelConfig
from musicgen.features import FEATURES
from musicgen.parts import FEATURE_CONFIGS, POSITION_CONFIGS
from musicgen.performer import Performer, parameter_count
from musicgen.position import POSITIONS, Position
from musicgen.position.flt import AppendedFeatures

METRE = {"bars": [1], "remembers": [2]}
CLOCK = {"bar_ticks": 6, "step_ticks": 6, "moves": []}


def test_json_and_yaml_round_trip():
    pairs = [
        *((one, "favor") for one in POSITION_CONFIGS),
        *(("none", one) for one in FEATURE_CONFIGS),
    ]
    for position, features in pairs:
        config = ModelConfig(vocabulary_size=7, position=position, features=features)
        assert ModelConfig.read(json.loads(json.dumps(config.plain()))) == config
        assert ModelConfig.read(yaml.safe_load(yaml.safe_dump(config.plain()))) == config
        assert (config.position_name, config.features_name) == (position, features)


def test_every_configuration_has_its_module():
    assert [*FEATURE_CONFIGS] == [*FEATURES]
    assert [*POSITION_CONFIGS] == [*POSITIONS]


@pytest.mark.parametrize("name", POSITIONS)
def test_what_an_encoding_declares_agrees_with_its_hooks(name: str):
    config, encoding = POSITION_CONFIGS[name], POSITIONS[name]
    overrides = encoding.features is not Position.features or encoding.decay is not Position.decay
    assert config.needs_linear_attention == overrides
    assert config.wants_softmax_kernel == issubclass(encoding, AppendedFeatures)


@pytest.mark.parametrize(("preset", "millions"), [("paper", 76.0), ("small", 19.1), ("tiny", 1.28)])
def test_presets_have_the_documented_size_and_accept_overrides(preset: str, millions: float):
    model = Performer(ModelConfig.preset(preset, vocabulary_size=333), seed=None)
    assert parameter_count(model) / 1e6 == pytest.approx(millions, rel=0.005)
    config = ModelConfig.preset(preset, vocabulary_size=5, position="rope", dropout=0.0)
    assert (config.layers, config.position_name, config.dropout) == (model.config.layers, "rope", 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"witdh": 8}, r"^file.yaml has an unknown key 'witdh' \(did you mean 'width'\?\)"),
        ({"position": {"name": "rope", "bsae": 2.0}}, r"'rope' has an unknown key 'bsae' .*'base'"),
        ({"horizons": [8, 2]}, r"horizons are \[8.0, 2.0\]; give the shortest and the longest"),
        ({"position": {"base": 2.0}}, r"position is .*; give a name, or a mapping with a name$"),
        ({"width": 100, "heads": 8}, r"width 100 cannot be divided among 8 heads; 96 can"),
        ({"layers": 0}, r"layers is 0; it must be at least 1"),
        ({"backend": "fast"}, r"backend is 'fast'; it must be one of "),
        ({"initial_deviation": -1}, r"initial_deviation is -1.0; it must be 0 or more"),
        ({"vocabulary_size": None}, r"vocabulary_size is None"),
        ({"position": {"name": "sine_spe", "time": "bars"}}, "must be one of tokens, music"),
        ({"position": {"name": "conv_spe", "time": "music"}}, "unknown key 'time'"),
        ({"position": {"name": "absolute", "base": 1}}, r"base is 1\.0; it must be greater"),
        ({"position": {"name": "learned", "initial_deviation": -1}}, "it must be 0 or more"),
        ({"position": {"name": "flt", "random_features": 0}}, "random_features is 0; it must be"),
        ({"position": {"name": "sine_spe", "sines": 0}}, "sines is 0; it must be at least 1"),
        ({"features": {"name": "favor", "features": 127}}, "must be an even number, found 127"),
        ({"features": {"name": "relu", "features": 0}}, "must be at least 1, or null, found 0"),
        ({"features": {"name": "elu", "floor": 0.0}}, r"floor of elu must be above 0, found 0\.0"),
        ({"metre": METRE}, "a metre needs the clock of the token language"),
        ({"metre": METRE, "attention": "softmax", "position": "none"}, "choose attention: linear"),
        ({"metre": {**METRE, "bars": [0.7]}, "clock": CLOCK}, r"0\.7 bars are 4\.\d* ticks"),
        ({"metre": {**METRE, "bars": [1, 2]}}, r"bars are .*; give one of each per head"),
        ({"metre": {**METRE, "features": 0}}, r"features 0 \(at least 1\)"),
        ({"metre": {**METRE, "remembers": [1]}}, r"remembers .*1\.0\] \(above 1\)"),
        ({"clock": {**CLOCK, "moves": [[7, 0, 2]]}}, "has token 7, but .* ends at token 6$"),
        ({"clock": {**CLOCK, "bar_ticks": 0}}, "a bar has 0 ticks and a step 6"),
        ({"clock": {**CLOCK, "moves": [[3, 0, 6]]}}, r"\[3, 0, 6\] is not a move; give a token"),
    ],
)
def test_an_invalid_configuration_gives_a_message_of_one_line(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message) as caught:
        ModelConfig.read({"vocabulary_size": 7, **values}, "file.yaml")
    assert "\n" not in str(caught.value)


def test_unknown_presets_and_missing_sizes_are_named():
    with pytest.raises(ValueError, match=r"no preset 'papers' \(did you mean 'paper'\?\)"):
        ModelConfig.preset("papers", vocabulary_size=7)
    with pytest.raises(ValueError, match=r"preset paper is incomplete: .*vocabulary_size"):
        ModelConfig.preset("paper")
