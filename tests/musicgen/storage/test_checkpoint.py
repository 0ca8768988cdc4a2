"""A model as a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from musicgen.metre.heads import MetreConfig
from musicgen.model.performer import parameter_count
from musicgen.storage.checkpoint import CONFIG, NEW_WEIGHTS, WEIGHTS, Card, load, read_card, save
from tests.musicgen.toys import generator, toy_model, toy_tokens

CARD = Card(name="toy", language={"language": "remi"}, trained_length=8, training={"data": "none"})
TOKENS = toy_tokens(2, 20)
METRE = MetreConfig(bars=(1, 2), remembers=(2, 8))


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS, code=model.begin(generator()))


def test_float32_comes_back_bit_for_bit(tmp_path: Path) -> None:
    model = toy_model(seed=3, position="sine_spe")
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
    ("dtype", "share", "error"), [("bfloat16", 0.55, 0.02), ("int8", 0.35, 0.05)]
)
@pytest.mark.parametrize("tie", [False, True])
def test_smaller_weights_are_close(
    tmp_path: Path, dtype: str, share: float, error: float, tie: bool
) -> None:
    model = toy_model(width=64, feedforward=128, tie_embeddings=tie)
    whole = save(tmp_path / "whole", model, CARD)
    small = save(tmp_path / "small", model, CARD, dtype)
    loaded, card = load(tmp_path / "small")
    assert (card.dtype, card.parameters) == (dtype, whole.parameters)
    assert small.bytes < share * whole.bytes
    difference = (logits(loaded) - logits(model)).abs().max() / logits(model).abs().max()
    assert 0 < difference < error
    with safe_open(tmp_path / "small" / WEIGHTS, framework="pt") as file:
        stored = {name: str(file.get_tensor(name).dtype) for name in file.keys()}  # noqa: SIM118
    assert {stored["blocks.0.attention.qkv.weight"]} == {f"torch.{dtype}"}
    assert len({save(tmp_path / str(i), model, CARD, dtype).sha256 for i in range(5)}) == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_saving_smaller_weights_again_changes_nothing_more(tmp_path: Path, dtype: str) -> None:
    save(tmp_path / "a", toy_model(), CARD, dtype)
    once = load(tmp_path / "a")[0]
    save(tmp_path / "b", once, CARD, dtype)
    torch.testing.assert_close(logits(load(tmp_path / "b")[0]), logits(once))


def test_saving_over_a_model_keeps_what_others_wrote(tmp_path: Path) -> None:
    save(tmp_path, toy_model(seed=1), CARD)
    (tmp_path / "README.md").write_text("about")
    save(tmp_path, toy_model(seed=2), CARD)
    assert (tmp_path / "README.md").read_text() == "about"
    assert torch.equal(logits(load(tmp_path)[0]), logits(toy_model(seed=2)))


def fail_at(patch: pytest.MonkeyPatch, cut: int) -> None:
    """Let the n-th operation on the disk fail."""
    operations = iter(range(100))

    def failing(work: Any) -> Any:
        def call(*args: Any) -> Any:
            if next(operations) == cut:
                raise OSError("the disk is full")
            return work(*args)

        return call

    for name in ("fsync", "replace"):
        patch.setattr(os, name, failing(getattr(os, name)))


@pytest.mark.parametrize("cut", range(6))
def test_a_save_cut_off_anywhere_leaves_one_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    models = [toy_model(seed=seed) for seed in range(3)]
    save(tmp_path, models[0], CARD)
    with monkeypatch.context() as patch:
        fail_at(patch, cut)
        with pytest.raises(OSError, match="disk is full"):
            save(tmp_path, models[1], CARD)
    left = logits(models[0] if cut < 3 else models[1])
    assert torch.equal(logits(load(tmp_path)[0]), left)
    with monkeypatch.context() as patch:
        patch.setattr(
            "musicgen.storage.checkpoint._write", lambda *_: fail_at(patch, 0) or os.fsync(0)
        )
        with pytest.raises(OSError, match="disk is full"):
            save(tmp_path, models[2], CARD)
    assert torch.equal(logits(load(tmp_path)[0]), left)
    save(tmp_path, models[2], CARD)
    assert torch.equal(logits(load(tmp_path)[0]), logits(models[2]))


def damage(folder: Path, how: str) -> None:
    """Do something to a saved model."""
    weights, config = folder / WEIGHTS, folder / CONFIG
    content = json.loads(config.read_bytes())
    if how == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif how == "flipped":
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
    elif how == "no weights":
        weights.unlink()
    elif how == "no config":
        config.unlink()
    elif how == "no json":
        config.write_bytes(config.read_bytes()[:-20])
    elif how == "a list":
        config.write_text("[]")
    elif how == "future":
        config.write_text(json.dumps({**content, "format": 2}))
    elif how == "misspelt":
        content["model"]["layer"] = content["model"].pop("layers")
        config.write_text(json.dumps(content))
    elif how == "wider":
        content["model"]["feedforward"] += 1
        config.write_text(json.dumps(content))
    elif how == "deeper":
        content["model"]["layers"] += 1
        config.write_text(json.dumps(content))
    elif how == "pickled":
        torch.save({}, weights)
        restate(folder, content)
    elif how == "scaled":
        with_tensor(folder, content, "embedding.weight.scale", torch.zeros(0))
    elif how == "wide and thin":
        content["model"]["width"] = 1 << 12
        with_tensor(folder, content, "embedding.weight", torch.zeros(11, 1 << 12))
        with_tensor(folder, content, "blocks.0.feedforward.inner.weight", torch.zeros(24, 1 << 12))
    elif how == "scaled vector":
        with_tensor(folder, content, "norm.weight.scale", torch.ones(16))
    elif how == "scaled cube":
        many = torch.zeros(1 << 20, 1, 1, dtype=torch.int8)
        with_tensor(folder, content, "head.weight.scale", torch.ones(1 << 20))
        with_tensor(folder, content, "head.weight", many)
    elif how == "whole numbers":
        with_tensor(folder, content, "embedding.weight", torch.zeros(11, 16).int())
    elif how == "without end":
        with_tensor(folder, content, "embedding.weight", torch.full((11, 16), torch.inf))
    elif how == "another's":
        with_tensor(folder, content, "\x1b[2J", torch.zeros(1))
    elif how == "many":
        weights.write_bytes((1 << 23).to_bytes(8, "little") + b" " * (1 << 23))
        restate(folder, content)
    elif how == "long":
        content["card"]["trained_length"] = 10**30
        config.write_text(json.dumps(content))
    elif how == "foreign":
        safetensors.torch.save_file({"x": torch.zeros(1)}, weights)
        restate(folder, content)


def with_tensor(folder: Path, content: dict[str, Any], name: str, tensor: torch.Tensor) -> None:
    """Change a tensor of the weights, or add one."""
    stored = safetensors.torch.load_file(folder / WEIGHTS)
    safetensors.torch.save_file({**stored, name: tensor}, folder / WEIGHTS)
    restate(folder, content)


def restate(folder: Path, content: dict[str, Any]) -> None:
    """Make config.json state the weights that are there."""
    from hashlib import sha256

    data = (folder / WEIGHTS).read_bytes()
    content["card"].update(bytes=len(data), sha256=sha256(data).hexdigest())
    (folder / CONFIG).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("truncated", ValueError, r"model.safetensors has \d+ bytes of the \d+ stated"),
        ("flipped", ValueError, r"model.safetensors is damaged: its SHA-256"),
        ("no weights", FileNotFoundError, r"holds no model.safetensors"),
        ("no config", FileNotFoundError, r"is not a model: it holds no config.json"),
        ("no json", ValueError, r"config.json is not JSON"),
        ("a list", ValueError, r"config.json does not describe a model"),
        ("future", ValueError, r"config.json has format 2, but this version reads 1"),
        (
            "misspelt",
            ValueError,
            r"config.json: model has an unknown key 'layer' \(did you mean 'layers'",
        ),
        ("wider", ValueError, r"has 'blocks.0.feedforward.inner.\w+' in shape .* says \(25"),
        ("deeper", ValueError, r"model.safetensors lacks tensor 'blocks.1.attention.*'"),
        ("pickled", ValueError, r"model.safetensors is not a safetensors file"),
        ("foreign", ValueError, r"model.safetensors lacks tensor"),
        ("scaled", ValueError, r"has 'embedding.weight.scale' in shape \(0,\), where"),
        ("wide and thin", ValueError, r"has 'blocks.0.attention.qkv.weight' in shape \(48, 16\)"),
        ("scaled vector", ValueError, r"has a superfluous tensor 'norm.weight.scale'"),
        ("scaled cube", ValueError, r"has 'head.weight' in shape \(1048576, 1, 1\), where"),
        ("whole numbers", ValueError, r"has 'embedding.weight' in torch.int32, which nothing"),
        ("without end", ValueError, r"has numbers in 'embedding.weight' that are not finite"),
        ("another's", ValueError, r"has a superfluous tensor '\\x1b\[2J'"),
        ("many", ValueError, r"is not a safetensors file \(its header is longer than"),
        ("long", ValueError, r"config.json: card: trained_length is 1000"),
    ],
)
def test_a_damaged_model_is_named(
    tmp_path: Path, how: str, error: type[Exception], message: str
) -> None:
    save(tmp_path, toy_model(), CARD)
    damage(tmp_path, how)
    with pytest.raises(error, match=message) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_other_dtypes_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stored as float32, bfloat16, int8, not as 'float16'"):
        save(tmp_path, toy_model(), CARD, "float16")
    with pytest.raises(FileNotFoundError, match="nowhere is not a model"):
        load(tmp_path / "nowhere")
    assert not (tmp_path / NEW_WEIGHTS).exists()


def test_loading_a_model_imports_no_compiler() -> None:
    """Each process that composes would take 100 MB more, and two seconds until its first note."""
    code = (
        "import sys; from musicgen.loading import load; from musicgen.storage.library import shipped\n"
        "for name in shipped(): load(name)\n"
        "assert not {'torch._dynamo', 'sympy'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("model", "part", "change"),
    [
        ({"metre": METRE}, "metre", {"features": 1 << 20}),
        ({"metre": METRE}, "metre", {"features": 1 << 40}),
        ({"metre": METRE}, "clock", {"bar_ticks": 1 << 20}),
        ({"metre": METRE}, "clock", {"bar_ticks": 10**400}),
        ({"metre": METRE}, "clock", {"moves": [[0, 1 << 70, 0]]}),
        ({"position": "flt"}, "position", {"random_features": 1 << 20}),
    ],
)
def test_sizes_that_no_tensor_has_are_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict, part: str, change: dict
) -> None:
    save(tmp_path, toy_model(**model), CARD)
    content = json.loads((tmp_path / CONFIG).read_bytes())
    content["model"][part].update(change)
    (tmp_path / CONFIG).write_text(json.dumps(content))
    monkeypatch.setattr("musicgen.storage.checkpoint.Performer", None)  # memory is taken there
    with pytest.raises(ValueError, match=r"config\.json|model\.safetensors"):
        load(tmp_path)
