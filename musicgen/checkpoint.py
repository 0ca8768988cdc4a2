"""A model as a folder: config.json (all that is known of it), model.safetensors (its weights), README.md (for people).

Nothing is pickled. At any moment the folder holds one whole model, old or new: the new weights are complete under
another name before config.json, which states their hash, is replaced, and take their place after it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from musicgen.config import ModelConfig
from musicgen.linear import quantise, restore
from musicgen.performer import Performer, parameter_count
from musicgen.position import POSITIONS
from musicgen.recall import MATCHED_LEVELS, PLANNED_LEVELS
from tokenization.records import from_plain, json_of
from tokenization.whole_file import is_text, sync, write_whole

FORMAT = 1
AGAIN = "; copy or save the model again"  # what to do about a damaged one
CONFIG, WEIGHTS, NEW_WEIGHTS = "config.json", "model.safetensors", "model.safetensors.new"
DTYPES = ("float32", "bfloat16", "int8")
LONGEST_NAME_BYTES = 200  # a file's name ends in more, and has room for 255
LONGEST_HEADER_BYTES = 1 << 22  # of the weights: there they name some ten thousand tensors
LONGEST_SEQUENCE = 1 << 24  # tokens that a model was trained on at a time
MOST_DRAWN = 1 << 12  # realisations or random features; the papers have some dozens
# The numbers of an encoding's configuration, multiplied: a tensor has so many a channel at most.
SMALL_POSITION = 1 << 12
_OMEGA = "blocks.0.attention.features.omega"
_SCALE = ".scale"  # of an int8 matrix, after its name


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a model besides its configuration and weights; `save` fills the last four fields."""

    name: str
    language: dict[str, Any]  # the spec of its token language, as the language gave it
    trained_length: int  # tokens a training sequence; 0 for an untrained model
    training: dict[str, Any] = field(default_factory=dict)  # data, licence, steps, losses, …
    parameters: int = 0
    dtype: str = "float32"
    bytes: int = 0
    sha256: str = ""  # of the weights; identifies the model


def save(folder: str | Path, model: Performer, card: Card, dtype: str = "float32") -> Card:
    """Write a model, and return its completed card.

    `dtype` is that of the matrices of linear layers and embeddings; everything else keeps its own.
    """
    if dtype not in DTYPES:
        raise ValueError(f"weights are stored as {', '.join(DTYPES)}, not as {dtype!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _settle(folder)
    # One entry, since several would come in an order that differs from time to time, and so would the hash.
    weights = safetensors.torch.save(_stored(model, dtype), {"format": "pt"})
    card = replace(
        card,
        parameters=parameter_count(model),
        dtype=dtype,
        bytes=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
    )
    content = {"format": FORMAT, "model": model.config.plain(), "card": asdict(card)}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / NEW_WEIGHTS, weights)
    write_whole(folder / CONFIG, text.encode(errors="backslashreplace"))
    sync(folder)
    os.replace(folder / NEW_WEIGHTS, folder / WEIGHTS)
    sync(folder)
    return card


def load(folder: str | Path, device: str | torch.device = "cpu") -> tuple[Performer, Card]:
    """Return a saved model, in evaluation mode, and its card."""
    folder = Path(folder)
    config, card = read_card(folder)
    path = _weights_path(folder, card)
    stored = _tensors_of(path)
    _check_sizes(config, stored, path)
    model = Performer(config, seed=None)
    _fill(model, stored, path)
    return model.to(device).eval(), card


def read_card(folder: str | Path) -> tuple[ModelConfig, Card]:
    """Return configuration and card of a saved model without touching its weights."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a model: it holds no {CONFIG}")
    try:
        content = json_of(path)
    except ValueError as error:
        raise ValueError(f"{error}{AGAIN}") from None
    if not isinstance(content, dict) or {"format", "model", "card"} - content.keys():
        raise ValueError(
            f"{path} does not describe a model: format, model and card are wanted in it"
        )
    if content["format"] != FORMAT:
        raise ValueError(
            f"{path} has format {content['format']!r}, but this version reads {FORMAT}"
        )
    config = ModelConfig.read(content["model"], f"{path}: model")
    card = from_plain(Card, content["card"], f"{path}: card")
    if not 0 <= card.trained_length <= LONGEST_SEQUENCE:
        raise ValueError(
            f"{path}: card: trained_length is {card.trained_length}; it must be 0 to {LONGEST_SEQUENCE}"
        )
    return config, replace(card, name=_plain_name(card.name))


def _plain_name(name: str) -> str:
    """Return the name that a model gives itself, fit to be a file's: seen, no folder, no command to a terminal."""
    fit = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in name)
    fit = fit if fit and fit[0] != "." else f"model{fit}"
    return fit.encode()[:LONGEST_NAME_BYTES].decode(errors="ignore")


def _stored(model: Performer, dtype: str) -> dict[str, Tensor]:
    """Return the tensors that go into the file."""
    matrices = _matrices(model)
    stored: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        tensor = tensor.detach().cpu()
        if name in matrices and dtype == "int8":
            tensor, stored[name + _SCALE] = quantise(tensor)
        elif name in matrices:
            tensor = tensor.to(getattr(torch, dtype))
        stored[name] = tensor.contiguous()
    return stored


def _matrices(model: nn.Module) -> set[str]:
    kinds = (nn.Linear, nn.Embedding)
    return {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, kinds)}


def _tensors_of(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file; each that it names costs time, so its header, which names them, is short."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    try:
        if header_bytes > LONGEST_HEADER_BYTES:
            raise SafetensorError(f"its header is longer than {LONGEST_HEADER_BYTES:,} bytes")
        if not is_text(path):  # which cannot be mapped
            return safetensors.torch.load(path.read_bytes())
        return safetensors.torch.load_file(path)
    except (SafetensorError, KeyError) as error:  # the last of a type that torch lacks
        raise ValueError(f"{path} is not a safetensors file ({error}){AGAIN}") from None


def _check_sizes(config: ModelConfig, stored: Mapping[str, Tensor], path: Path) -> None:
    """Compare what takes the memory of a model with the weights at hand, before any is taken."""
    layers = len({name.split(".")[1] for name in stored if name.startswith("blocks.")})
    rows = {"embedding": config.vocabulary_size}  # of matrices, each as wide as the model
    if config.goals is not None:
        rows["goals.vectors"] = len(config.goals)
    if config.recall is not None:
        rows |= dict.fromkeys(("recall.planned", "recall.matched"), config.vocabulary_size)
        rows |= dict.fromkeys(("recall.trust", "recall.level"), PLANNED_LEVELS + MATCHED_LEVELS)
    outputs = {"attention.qkv": 3 * config.width, "feedforward.inner": config.feedforward}
    if (metre := config.metre) is not None:
        outputs["attention.metre.qkv"] = len(metre.bars) * (2 * metre.features + config.head_width)
    for layer in range(min(layers + 1, config.layers)):
        rows |= {f"blocks.{layer}.{name}": count for name, count in outputs.items()}
    wanted = {f"{name}.weight": (count, config.width) for name, count in rows.items()}
    missing = [name for name in wanted if name not in stored]
    columns = stored[_OMEGA].numel() if _OMEGA in stored else config.width
    if config.attention == "linear" and (config.features.features or 0) > 4 * columns:
        missing.append(_OMEGA)
    if missing:
        raise ValueError(_does_not_belong(path, "lacks", missing[0]))
    for name, shape in wanted.items():
        _check_shape(path, name, stored[name], shape)
    _check_position(config, stored, path)


def _check_position(config: ModelConfig, stored: Mapping[str, Tensor], path: Path) -> None:
    for name in ("realisations", "random_features"):
        if (asked := getattr(config.position, name, 0)) > MOST_DRAWN:
            raise ValueError(
                f"{path.parent / CONFIG} asks for {asked} {name}; at most {MOST_DRAWN} can be used"
            )
    # Sums on the device without memory import torch's compiler, 100 MB of it: it is for what might not be had.
    sizes = math.prod(n for n in vars(config.position).values() if type(n) is int and n > 0)
    device = torch.device("cpu" if sizes <= SMALL_POSITION else "meta")
    with device, torch.random.fork_rng([]), suppress(NotImplementedError):  # one may compute there
        position = POSITIONS[config.position_name][1](config.position, config.shape())
        for name, empty in position.state_dict(prefix="position.").items():
            if name not in stored:
                raise ValueError(_does_not_belong(path, "lacks", name))
            _check_shape(path, name, stored[name], tuple(empty.shape))


def _does_not_belong(path: Path, has: str, name: str) -> str:
    return f"{path} {has} tensor {name!r}; it does not belong to the {CONFIG} in the same folder"


def _check_shape(path: Path, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{path} has {name!r} in shape {tuple(tensor.shape)}, where {CONFIG} says {shape}"
        )


def _check_type(path: Path, name: str, tensor: Tensor, *types: torch.dtype) -> None:
    if tensor.dtype not in types:
        raise ValueError(
            f"{path} has {name!r} in {tensor.dtype}, which nothing here stores it in{AGAIN}"
        )


def _fill(model: Performer, stored: dict[str, Tensor], path: Path) -> None:
    """Copy the stored tensors into a model, which must be exactly those that it has."""
    wanted = model.state_dict()
    matrices = _matrices(model) & stored.keys()
    scales = {n: stored.pop(n + _SCALE) for n in matrices if n + _SCALE in stored}
    for name in sorted(wanted.keys() ^ stored.keys()):
        has = "lacks" if name in wanted else "has a superfluous"
        raise ValueError(_does_not_belong(path, has, name))
    for name, tensor in wanted.items():
        _check_shape(path, name, stored[name], tuple(tensor.shape))
        if name in scales:
            _check_shape(path, name + _SCALE, scales[name], tuple(tensor.shape[:1]))
            _check_type(path, name + _SCALE, scales[name], torch.float32)
        others = (torch.bfloat16, torch.float64) if tensor.is_floating_point() else ()
        types = (torch.int8,) if name in scales else (tensor.dtype, *others)
        _check_type(path, name, stored[name], *types)
    tensors = {n: restore(t, scales[n]) if n in scales else t for n, t in stored.items()}
    # Copied, not assigned: the file's tensors lie in memory as they come, and on another alignment
    # some kernels add up in another order.
    model.load_state_dict(tensors)
    for name, tensor in wanted.items():  # which is of the model, and now holds what was copied
        if not tensor.isfinite().all():
            raise ValueError(f"{path} has numbers in {name!r} that are not finite")


def _weights_path(folder: Path, card: Card) -> Path:
    """Return the file that holds the weights that the card states."""
    for path in (folder / WEIGHTS, folder / NEW_WEIGHTS):
        if path.is_file() and path.stat().st_size == card.bytes and _hash(path) == card.sha256:
            return path
    path = folder / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is an incomplete model: it holds no {WEIGHTS}")
    if (size := path.stat().st_size) != card.bytes:
        raise ValueError(f"{path} has {size} bytes of the {card.bytes} stated in {CONFIG}{AGAIN}")
    raise ValueError(f"{path} is damaged: its SHA-256 is not the one stated in {CONFIG}{AGAIN}")


def _settle(folder: Path) -> None:
    """Finish a save that was cut off between its two renames, so that its weights are not overwritten."""
    if (folder / NEW_WEIGHTS).is_file():
        with suppress(ValueError, FileNotFoundError):  # no whole model there: nothing to keep
            os.replace(_weights_path(folder, read_card(folder)[1]), folder / WEIGHTS)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
