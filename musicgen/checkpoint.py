"""Model folders: config.json (configuration and card), model.safetensors (weights) and README.md (human-readable).

Nothing is pickled. Saving is atomic: the folder always holds one complete model, the old or the new one. The weights
are written under another name; then config.json, which states their hash, is replaced, and then they are renamed.
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

from musicgen.attention import dequantise, quantise
from musicgen.config import ModelConfig
from musicgen.performer import Performer, parameter_count
from musicgen.position import POSITIONS
from musicgen.recall import MATCHED_LEVELS, PLANNED_LEVELS
from tokenization.records import from_plain, json_of
from tokenization.whole_file import sync, write_whole

FORMAT = 1
AGAIN = "; copy or save the model again"  # advice in errors about damage
CONFIG, WEIGHTS, NEW_WEIGHTS = "config.json", "model.safetensors", "model.safetensors.new"
DTYPES = ("float32", "bfloat16", "int8")
LONGEST_NAME_BYTES = 200  # file names allow 255, and a suffix follows
LONGEST_HEADER_BYTES = 1 << 22  # of the weights file: enough for about ten thousand tensors
LONGEST_SEQUENCE = 1 << 24  # tokens, of `Card.trained_length`
MOST_DRAWN = 1 << 12  # realisations or random features; the papers use dozens
# An encoding whose sizes multiply to at most this is built on the CPU to check the shapes of its tensors.
SMALL_POSITION = 1 << 12
_OMEGA = "blocks.0.attention.features.omega"
_SCALE = ".scale"  # suffix for the scales of an int8 matrix


@dataclass(frozen=True, kw_only=True)
class Card:
    """The metadata of a model; `save` fills in the last four fields."""

    name: str
    language: dict[str, Any]  # the spec of its token language
    trained_length: int  # tokens per training sequence; 0 for an untrained model
    training: dict[str, Any] = field(default_factory=dict)  # data, licence, steps, losses, …
    parameters: int = 0
    dtype: str = "float32"
    bytes: int = 0
    sha256: str = ""  # of the weights; identifies the model


def save(folder: str | Path, model: Performer, card: Card, dtype: str = "float32") -> Card:
    """Save a model and return its completed card.

    `dtype` applies to the matrices of linear layers and embeddings; all other tensors keep their own.
    """
    if dtype not in DTYPES:
        raise ValueError(f"weights cannot be stored as {dtype!r}; choose {', '.join(DTYPES)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _finish_interrupted_save(folder)
    # A single metadata entry: the order of several varies from run to run, and the hash with it.
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
    """Load a saved model in evaluation mode, and its card."""
    folder = Path(folder)
    config, card = read_card(folder)
    path = _weights_path(folder, card)
    stored = _tensors_of(path)
    _check_sizes(config, stored, path)
    model = Performer(config, seed=None)
    _fill(model, stored, path)
    return model.to(device).eval(), card


def read_card(folder: str | Path) -> tuple[ModelConfig, Card]:
    """Return the configuration and card of a saved model without reading its weights."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a model: it has no {CONFIG}")
    try:
        content = json_of(path)
    except ValueError as error:
        raise ValueError(f"{error}{AGAIN}") from None
    if not isinstance(content, dict) or {"format", "model", "card"} - content.keys():
        raise ValueError(f"{path} does not describe a model: it needs format, model and card")
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
    return config, replace(card, name=_safe_name(card.name))


def _safe_name(name: str) -> str:
    """Return a model's name made safe as a file name: visible, without path separators or terminal escapes."""
    safe = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in name)
    safe = safe if safe and safe[0] != "." else f"model{safe}"
    return safe.encode()[:LONGEST_NAME_BYTES].decode(errors="ignore")


def _stored(model: Performer, dtype: str) -> dict[str, Tensor]:
    """Return a model's tensors as they are stored in the file."""
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
    """Read the tensors of a file; its header is limited, since each tensor named there takes time."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    try:
        if header_bytes > LONGEST_HEADER_BYTES:
            raise SafetensorError(f"its header is longer than {LONGEST_HEADER_BYTES:,} bytes")
        return safetensors.torch.load(path.read_bytes())
    except (SafetensorError, KeyError) as error:  # KeyError for a data type that torch lacks
        raise ValueError(f"{path} is not a safetensors file ({error}){AGAIN}") from None


def _check_sizes(config: ModelConfig, stored: Mapping[str, Tensor], path: Path) -> None:
    """Check that the stored tensors fit the sizes of a configuration before memory is allocated for a model."""
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
    expected = {f"{name}.weight": (count, config.width) for name, count in rows.items()}
    missing = [name for name in expected if name not in stored]
    columns = stored[_OMEGA].numel() if _OMEGA in stored else config.width
    if config.attention == "linear" and (config.features.features or 0) > 4 * columns:
        missing.append(_OMEGA)
    if missing:
        raise ValueError(_does_not_belong(path, "lacks", missing[0]))
    for name, shape in expected.items():
        _check_shape(path, name, stored[name], shape)
    _check_position(config, stored, path)


def _check_position(config: ModelConfig, stored: Mapping[str, Tensor], path: Path) -> None:
    for name in ("realisations", "random_features"):
        if (asked := getattr(config.position, name, 0)) > MOST_DRAWN:
            raise ValueError(
                f"{path.parent / CONFIG} asks for {asked} {name}; at most {MOST_DRAWN} can be used"
            )
    # For large sizes only: the meta device allocates nothing, but its arithmetic imports 100 MB of torch's compiler.
    sizes = math.prod(n for n in vars(config.position).values() if type(n) is int and n > 0)
    device = torch.device("cpu" if sizes <= SMALL_POSITION else "meta")
    with device, torch.random.fork_rng([]), suppress(NotImplementedError):  # on meta
        position = POSITIONS[config.position_name](config.position, config.shape())
        for name, empty in position.state_dict(prefix="position.").items():
            if name not in stored:
                raise ValueError(_does_not_belong(path, "lacks", name))
            _check_shape(path, name, stored[name], tuple(empty.shape))


def _does_not_belong(path: Path, has: str, name: str) -> str:
    return f"{path} {has} tensor {name!r}; it does not belong to the {CONFIG} in the same folder"


def _check_shape(path: Path, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{path} has {name!r} in shape {tuple(tensor.shape)}, but {CONFIG} says {shape}"
        )


def _fill(model: Performer, stored: dict[str, Tensor], path: Path) -> None:
    """Copy the stored tensors into a model; raise ValueError unless they are exactly those of the model."""
    expected = model.state_dict()
    matrices = _matrices(model) & stored.keys()
    scales = {n: stored.pop(n + _SCALE) for n in matrices if n + _SCALE in stored}
    for name in sorted(expected.keys() ^ stored.keys()):
        has = "lacks" if name in expected else "has a superfluous"
        raise ValueError(_does_not_belong(path, has, name))
    for name, tensor in expected.items():
        _check_shape(path, name, stored[name], tuple(tensor.shape))
        if name in scales:
            _check_shape(path, name + _SCALE, scales[name], tuple(tensor.shape[:1]))
    tensors = {n: dequantise(t, scales[n].float()) if n in scales else t for n, t in stored.items()}
    # Copied, not assigned: a file's tensors have any alignment, on which the summation order of some kernels depends.
    model.load_state_dict(tensors)
    for name, tensor in expected.items():  # the model's own tensors, filled by now
        if not tensor.isfinite().all():
            raise ValueError(f"{path} has values in {name!r} that are not finite")


def _weights_path(folder: Path, card: Card) -> Path:
    """Return the file with the weights that the card describes."""
    for path in (folder / WEIGHTS, folder / NEW_WEIGHTS):
        if path.is_file() and path.stat().st_size == card.bytes and _hash(path) == card.sha256:
            return path
    path = folder / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is an incomplete model: it has no {WEIGHTS}")
    if (size := path.stat().st_size) != card.bytes:
        raise ValueError(f"{path} has {size} bytes of the {card.bytes} stated in {CONFIG}{AGAIN}")
    raise ValueError(f"{path} is damaged: its SHA-256 is not the one in {CONFIG}{AGAIN}")


def _finish_interrupted_save(folder: Path) -> None:
    """Finish a save that was interrupted between its two renames, so that its weights are not overwritten."""
    if (folder / NEW_WEIGHTS).is_file():
        with suppress(ValueError, FileNotFoundError):  # there is no complete model to keep
            os.replace(_weights_path(folder, read_card(folder)[1]), folder / WEIGHTS)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
