"""Saving and loading model folders, damaged ones included."""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from musicgen.checkpoint import (
    CONFIG,
    NEW_WEIGHTS,
    SCALE,
    WEIGHTS,
    Card,
    checked_tensors,
    dequantised,
    quantised,
    read_card,
    tensors_of,
    weights_path,
)
from musicgen.parts import POSITION_CONFIGS, MetreConfig
from musicgen.performer import parameter_count, redraw_features
from musicgen.weights import load, save
from tests.musicgen.toys import generator, toy_model, toy_tokens, whole_of

CARD = Card(name="toy", language={"language": "remi"}, trained_length=8, training={"data": "none"})
TOKENS = toy_tokens(2, 20)
METRE = MetreConfig(bars=(1, 2), remembers=(2, 8))
Damage = Callable[[Path], object]


def logits(model: Any) -> torch.Tensor:
    return whole_of(model, TOKENS)


@pytest.mark.parametrize(
    "parts",
    [*({"position": one} for one in POSITION_CONFIGS), {"metre": METRE, "goals": (7, 9)}],
    ids=str,
)
def test_float32_round_trips_bit_for_bit(tmp_path: Path, parts: dict[str, Any]):
    model = toy_model(seed=3, layers=2, **parts)
    redraw_features(model, generator(8))
    saved = save(tmp_path / "toy", model, CARD)
    loaded, card = load(tmp_path / "toy")
    assert torch.equal(logits(loaded), logits(model))
    assert card == saved == read_card(tmp_path / "toy")[1]
    assert (card.name, card.language, card.training) == (CARD.name, CARD.language, CARD.training)
    assert card.parameters == parameter_count(model)
    assert not loaded.training
    assert loaded.config == model.config
    assert all(p.requires_grad for p in loaded.parameters())
    assert sorted(os.listdir(tmp_path / "toy")) == [CONFIG, WEIGHTS]


@pytest.mark.parametrize(
    ("dtype", "fraction", "error"), [("bfloat16", 0.55, 0.02), ("int8", 0.35, 0.05)]
)
@pytest.mark.parametrize("parts", [{}, {"tie_embeddings": True}, {"metre": METRE, "goals": (7, 9)}])
def test_smaller_weights_are_close(tmp_path, dtype, fraction, error, parts):
    model = toy_model(width=64, feedforward=128, **parts)
    whole = save(tmp_path / "whole", model, CARD)
    small = save(tmp_path / "small", model, CARD, dtype)
    loaded, card = load(tmp_path / "small")
    assert (card.dtype, card.parameters) == (dtype, whole.parameters)
    assert small.bytes < fraction * whole.bytes
    difference = (logits(loaded) - logits(model)).abs().max() / logits(model).abs().max()
    assert 0 < difference < error
    with safe_open(tmp_path / "small" / WEIGHTS, framework="pt") as file:
        stored = {name: str(file.get_tensor(name).dtype) for name in file.keys()}  # noqa: SIM118
    assert {stored["blocks.0.attention.qkv.weight"]} == {f"torch.{dtype}"}
    assert save(tmp_path / "same", model, CARD, dtype).sha256 == small.sha256


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("position", ["sine_spe", "permuteformer"])
def test_arrays_have_the_values_that_torch_reads(tmp_path: Path, dtype: str, position: str):
    model = toy_model(position=position)
    save(tmp_path, model, CARD, dtype)
    config, card = read_card(tmp_path)
    found = checked_tensors(weights_path(tmp_path, card), config)
    wanted = load_file(tmp_path / WEIGHTS)
    assert found.keys() == wanted.keys()
    assert {name for name, array in found.items() if array.dtype == np.int8} == {
        name.removesuffix(SCALE) for name in found if name.endswith(SCALE)
    }
    for name, tensor in wanted.items():
        exact = tensor.float() if tensor.is_floating_point() else tensor
        np.testing.assert_array_equal(found[name], exact.numpy(), strict=True)


def test_short_floats_are_widened_exactly(tmp_path: Path):
    every = torch.arange(1 << 16).to(torch.uint16)
    for dtype in (torch.float16, torch.bfloat16):
        save_file(
            {"all": every.view(dtype), "one": torch.ones((), dtype=dtype)}, tmp_path / WEIGHTS
        )
        found = tensors_of(tmp_path / WEIGHTS)
        np.testing.assert_array_equal(found["all"], every.view(dtype).float().numpy(), strict=True)
        assert found["one"].shape == ()


def fail_at(patch: pytest.MonkeyPatch, cut: int) -> None:
    """Make the disk operation with this number fail, counted from 0."""
    operations = iter(range(100))

    def failing(work: Any) -> Any:
        def call(*args: Any) -> Any:
            if next(operations) == cut:
                raise OSError("the disk is full")
            return work(*args)

        return call

    for name in ("fsync", "replace"):
        patch.setattr(os, name, failing(getattr(os, name)))


@pytest.mark.parametrize("cut", range(7))
def test_an_interrupted_save_leaves_one_complete_model(tmp_path, monkeypatch, cut: int):
    models = [toy_model(seed=seed) for seed in range(3)]
    save(tmp_path, models[0], CARD)
    with monkeypatch.context() as patch:
        fail_at(patch, cut)
        with pytest.raises(OSError, match="disk is full"):
            save(tmp_path, models[1], CARD)
    left = logits(models[0] if cut < 4 else models[1])
    assert torch.equal(logits(load(tmp_path)[0]), left)
    with monkeypatch.context() as patch:
        patch.setattr("musicgen.weights.write_whole", lambda *_: fail_at(patch, 0) or os.fsync(0))
        with pytest.raises(OSError, match="disk is full"):
            save(tmp_path, models[2], CARD)
    assert torch.equal(logits(load(tmp_path)[0]), left)
    save(tmp_path, models[2], CARD)
    assert torch.equal(logits(load(tmp_path)[0]), logits(models[2]))


def rewritten(file: str, change: Callable[[bytes], bytes]) -> Damage:
    """Change the bytes of a file."""
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes()))


def stated(part: str, **values: object) -> Damage:
    """Change values in config.json: in its card or model, or at the top level if `part` is empty."""

    def change(folder: Path) -> None:
        content = json.loads((folder / CONFIG).read_bytes())
        (content[part] if part else content).update(values)
        (folder / CONFIG).write_text(json.dumps(content))

    return change


def replaced(write: Callable[[Path], object]) -> Damage:
    """Write other weights, and state their size and hash in config.json."""

    def change(folder: Path) -> None:
        write(folder / WEIGHTS)
        data = (folder / WEIGHTS).read_bytes()
        stated("card", bytes=len(data), sha256=sha256(data).hexdigest())(folder)

    return change


def with_tensors(**tensors: torch.Tensor) -> Damage:
    """Change or add tensors; __ in a name stands for a dot."""
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    return replaced(lambda file: save_file({**load_file(file), **named}, file))


def both(*damages: Damage) -> Damage:
    return lambda folder: [damage(folder) for damage in damages]


CUBE = {
    "head__weight": torch.zeros(1 << 20, 1, 1, dtype=torch.int8),
    "head__weight__scale": torch.ones(1 << 20),
}
OVERFLOWING = {
    "head__weight": torch.full((11, 16), 127, dtype=torch.int8),
    "head__weight__scale": torch.full((11,), 1e38),
}
THIN = {
    "embedding__weight": torch.zeros(11, 1 << 12),
    "blocks__0__feedforward__inner__weight": torch.zeros(24, 1 << 12),
}
LONG_HEADER = (1 << 23).to_bytes(8, "little") + b" " * (1 << 23)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (rewritten(WEIGHTS, lambda x: x[:-100]), r"tensors has \d+ bytes of the \d+ stated"),
        (rewritten(WEIGHTS, lambda x: x[:-1] + bytes([x[-1] ^ 1])), r"is damaged: its SHA-256"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"has no model.safetensors"),
        (lambda folder: (folder / CONFIG).unlink(), r"is not a model: it has no config.json"),
        (rewritten(CONFIG, lambda x: x[:-20]), r"config.json is not JSON"),
        (rewritten(CONFIG, lambda _: b"[]"), r"config.json does not describe a model"),
        (stated("", format=2), r"config.json has format 2, but this version reads 1"),
        (stated("card", trained_length=10**30), r"config.json: card: trained_length is 1000"),
        (stated("model", layer=1), r"unknown key 'layer' \(did you mean 'layers'"),
        (stated("model", feedforward=25), r"'blocks.0.feedforward.inner.\w+' in .* says \(25"),
        (stated("model", layers=2), r"model.safetensors lacks tensor 'blocks.1.attention.*'"),
        (replaced(lambda file: torch.save({}, file)), r"is not a safetensors file"),
        (replaced(lambda file: file.write_bytes(LONG_HEADER)), r"\(its header is longer than"),
        (with_tensors(embedding__weight__scale=torch.zeros(0)), r"in shape \(0,\), but config"),
        (both(stated("model", width=1 << 12), with_tensors(**THIN)), r"in shape \(48, 16\)"),
        (with_tensors(norm__weight__scale=torch.ones(16)), r"superfluous .* 'norm.weight.scale'"),
        (with_tensors(**CUBE), r"has 'head.weight' in shape \(1048576, 1, 1\), but config"),
        (with_tensors(embedding__weight=torch.full((11, 16), torch.inf)), r"are not finite"),
        (with_tensors(**OVERFLOWING), r"values in 'head.weight' that are not finite"),
        (
            with_tensors(norm__bias=torch.zeros(16).double()),
            r"'norm.bias' in the type F64; weights of",
        ),
        (with_tensors(**{"\x1b[2J": torch.zeros(1)}), r"has a superfluous tensor '\\x1b\[2J'"),
    ],
)
def test_damage_gives_a_message_of_one_line(tmp_path: Path, damage: Damage, message: str):
    save(tmp_path, toy_model(), CARD)
    damage(tmp_path)
    missing = "has no" in message
    error = FileNotFoundError if missing else ValueError
    with pytest.raises(error, match=message) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_other_dtypes_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"stored as 'float16'; choose float32, bfloat16, int8$"):
        save(tmp_path, toy_model(), CARD, "float16")
    assert not (tmp_path / NEW_WEIGHTS).exists()


@pytest.mark.parametrize(
    ("model", "part", "change"),
    [
        ({"metre": METRE}, "metre", {"features": 1 << 40}),
        ({"metre": METRE}, "metre", {"features": 1 << 20}),
        ({"metre": METRE}, "clock", {"bar_ticks": 10**400}),
        ({"metre": METRE}, "clock", {"moves": [[0, 1 << 70, 0]]}),
        ({"position": "flt"}, "position", {"random_features": 1 << 20}),
    ],
)
def test_sizes_that_no_tensor_shows_are_bounded_too(tmp_path, monkeypatch, model, part, change):
    save(tmp_path, toy_model(**model), CARD)
    content = json.loads((tmp_path / CONFIG).read_bytes())
    stated("model", **{part: {**content["model"][part], **change}})(tmp_path)
    monkeypatch.setattr("musicgen.weights.Performer", None)  # which would allocate the memory
    with pytest.raises(ValueError, match=r"config\.json|model\.safetensors"):
        load(tmp_path)


def test_int8_weights_are_at_most_half_a_step_off_and_quantise_to_themselves():
    weight = torch.randn(40, 64, generator=generator()) * torch.logspace(-6, 6, 40)[:, None]
    weight = weight.numpy()
    weight[7] = 0
    whole, scale = quantised(weight)
    assert (whole.dtype, scale.dtype) == (np.int8, np.float32)
    assert np.abs(whole).max(1).tolist() == [127] * 7 + [0] + [127] * 32
    restored = dequantised(whole, scale)
    assert (np.abs(restored - weight) <= 0.5001 * scale[:, None]).all()
    again = quantised(restored)
    assert np.array_equal(again[0], whole)
    np.testing.assert_allclose(again[1], scale, rtol=1e-6)
