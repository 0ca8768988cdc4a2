"""Model folders: config.json (configuration and card), model.safetensors (weights), critic.npz, and README.md.

Nothing is pickled. Folders are found and read here, without torch; weights.py saves networks and loads them. If a save
is interrupted before its last step, the weights still have the name NEW_WEIGHTS.

A style (`musicgen learn`) is a folder in the user's home that has only what changes the weights of its base.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.config import ModelConfig
from musicgen.parts import MATCHED_LEVELS, PLANNED_LEVELS
from tokenization.records import from_json, from_plain, json_of, suggestion, whole_number

FORMAT = 1
AGAIN = "; copy or save the model again"  # advice in errors about damage
CONFIG, WEIGHTS, NEW_WEIGHTS = "config.json", "model.safetensors", "model.safetensors.new"
LONGEST_NAME_BYTES = 200  # file names allow 255, and a suffix follows
LONGEST_HEADER_BYTES = 1 << 22  # of the weights file: enough for about ten thousand tensors
MOST_STYLE_BYTES = 1 << 21  # of the weights of a style
LONGEST_SEQUENCE = 1 << 24  # tokens, of `Card.trained_length`
MOST_DRAWN = 1 << 12  # realisations or random features; the papers use dozens
_OMEGA = "blocks.0.attention.features.omega"

# Matrices as 8-bit integers with one scale per row take a quarter of the space of float32, on disk and in the memory
# that a step reads.

SCALE = ".scale"  # suffix for the scales of an int8 matrix
UP, DOWN = "up", "down"  # of a layer that a style changes: (O, rank) and (rank, I)


def quantised(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a float32 matrix (O, I) as int8 in −127 … 127 and float32 scales (O,): weight ≈ int8 · scale."""
    scale = np.abs(weight).max(1) / np.float32(127)
    scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def dequantised(codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the float32 matrix of int8 values and scales."""
    with np.errstate(over="ignore"):  # the caller checks what it reads from files
        return codes.astype(np.float32) * scale.astype(np.float32)[:, None]


@dataclass(frozen=True, kw_only=True)
class Card:
    """The metadata of a model; `save` fills in `parameters` to `sha256`."""

    name: str
    language: dict[str, Any]  # the spec of its token language
    trained_length: int  # tokens per training sequence; 0 for an untrained model
    training: dict[str, Any] = field(default_factory=dict)  # data, licence, steps, losses, …
    parameters: int = 0
    dtype: str = "float32"
    bytes: int = 0
    sha256: str = ""  # of the weights; identifies the model
    base: dict[str, str] = field(default_factory=dict)  # of a style: its base's name and sha256


def shipped() -> dict[str, Path]:
    """Return the models in the package: name → folder."""
    return _models_in(Path(str(files("musicgen") / "pretrained")))


def styles_folder() -> Path:
    """Return the folder of the user's styles."""
    return Path.home() / ".musicgen" / "styles"


def styles() -> dict[str, Path]:
    """Return the user's styles: name → folder."""
    try:
        return _models_in(styles_folder())
    except (OSError, RuntimeError):  # no home, or one that cannot be read
        return {}


def named() -> dict[str, Path]:
    """Return the models that have a name, those in the package first: name → folder."""
    return shipped() | {name: path for name, path in styles().items() if name not in shipped()}


def _models_in(root: Path) -> dict[str, Path]:
    found = sorted(p for p in root.glob("[!.]*") if (p / CONFIG).is_file())
    return {path.name: path for path in found}


def folder_of(name: str) -> Path:
    """Return the folder of a model by name or path."""
    by_name = named()
    if name in by_name:
        return by_name[name]
    path = Path(name)
    if (path / CONFIG).is_file():
        return path
    if (path / "model" / CONFIG).is_file():  # the folder of a training run
        return path / "model"
    raise FileNotFoundError(
        f"there is no model {name!r}: it is neither a model of the package, a style, nor a folder with a config.json"
        f"{suggestion(name, by_name)}"
    )


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


def weights_path(folder: Path, card: Card) -> Path:
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


def base_of(card: Card) -> Path:
    """Return the folder of the model that a style changes; raise FileNotFoundError if just that one is missing."""
    name, sha256 = card.base.get("name", ""), card.base.get("sha256", "")
    for folder in (*shipped().values(), Path(name)):
        if (folder / CONFIG).is_file():
            found = read_card(folder)[1]
            if found.sha256 == sha256 and not found.base:
                return folder
    raise FileNotFoundError(
        f"the style {card.name} was learned from the model {name!r} with the SHA-256 {sha256[:12]!r}…, which is not "
        "here: install it, or learn the style again"
    )


def tensors_of_model(
    folder: Path, config: ModelConfig, card: Card
) -> tuple[Path, dict[str, np.ndarray]]:
    """Return the file of a model's weights and its tensors; those of a style are its base's, changed."""
    if not card.base:
        path = weights_path(folder, card)
        return path, checked_tensors(path, config)
    base = base_of(card)
    if card.bytes > MOST_STYLE_BYTES:
        raise ValueError(
            f"{folder / CONFIG} states weights of {card.bytes:,} bytes; a style has at most {MOST_STYLE_BYTES:,}"
        )
    of_base, base_card = read_card(base)
    if of_base != config:
        raise ValueError(f"{folder / CONFIG} describes another model than that of {base}{AGAIN}")
    path = weights_path(folder, card)
    whole, own = checked_tensors(weights_path(base, base_card), config), tensors_of(path)
    for matrix in {name.rpartition(".")[0] for name in own}:
        _change(whole, own, matrix, path)
    for name in sorted(own):
        raise ValueError(does_not_belong(path, "has a superfluous", name))
    return path, whole


def _change(
    whole: dict[str, np.ndarray], own: dict[str, np.ndarray], layer: str, path: Path
) -> None:
    """Add a style's change of a layer's matrix, U D, and take U and D from the style's own tensors.

    The sums are elementwise and in order, and so the same on every machine.
    """
    name = f"{layer}.weight"
    up, down = (own.pop(f"{layer}.{part}", None) for part in (UP, DOWN))
    if up is None or down is None or name not in whole or whole[name].ndim != 2:
        raise ValueError(does_not_belong(path, "lacks, or has a superfluous", f"{layer}.{UP}"))
    (outputs, inputs), rank = whole[name].shape, down.shape[0] if down.ndim else 0
    check_shape(path, f"{layer}.{DOWN}", down, (rank, inputs))
    check_shape(path, f"{layer}.{UP}", up, (outputs, rank))
    scale = whole.pop(name + SCALE, None)
    matrix = whole[name] if scale is None else dequantised(whole[name], scale)
    with np.errstate(over="ignore", invalid="ignore"):
        for column, row in zip(up.T, down, strict=True):
            matrix = matrix + np.multiply.outer(column, row)
    check_finite(path, f"{layer}.{UP}", bool(np.isfinite(matrix).all()))
    whole[name] = matrix.astype(np.float32)  # from any type that a file can have


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_tensors(path: Path, config: ModelConfig) -> dict[str, np.ndarray]:
    """Read the tensors of a file; raise ValueError if they do not fit the configuration, or are not finite.

    The scales of the rows of an int8 matrix have its name and SCALE. Only the sizes that determine a model's memory are
    checked here; weights.py, or for the kernel packing.py, checks all names and shapes.
    """
    tensors = tensors_of(path)
    _check_sizes(config, tensors, path)
    for name, tensor in tensors.items():
        check_finite(path, name, bool(np.isfinite(tensor).all()))
    return tensors


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    """Read the tensors of a file: int8 and int64 as they are, and floats exactly, in float32.

    The format is read here, since browsers have no safetensors: eight bytes with the length of the header, the header,
    which is a JSON object with the type, the shape and the place of each tensor, and the tensors, without gaps. The
    header is limited, since each tensor named there takes time.
    """
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        if start > 8 + LONGEST_HEADER_BYTES:
            raise ValueError(f"its header is longer than {LONGEST_HEADER_BYTES:,} bytes")
        header = from_json(data[8:start], "its header")
        places = _places(header, len(data) - start)
    except ValueError as error:
        raise ValueError(f"{path} is not a safetensors file ({error}){AGAIN}") from None
    return {
        name: _array(path, name, str(header[name]["dtype"]), shape, data[start + at : start + stop])
        for name, (shape, at, stop) in places.items()
    }


def _places(header: Any, size: int) -> dict[str, tuple[list[int], int, int]]:
    """Return the shape of each tensor in a header, and where its `size` bytes begin and end."""
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    places: dict[str, tuple[list[int], int, int]] = {}
    for name, told in header.items():
        if name == "__metadata__":
            continue
        try:
            shape = [whole_number(one, "a size") for one in told["shape"]]
            at, stop = (whole_number(one, "a place") for one in told["data_offsets"])
            size_of_one = _BYTES.get(told["dtype"])  # None: refused later
        except (KeyError, TypeError, ValueError):
            raise ValueError("its header does not describe tensors") from None
        if min(shape, default=0) < 0:
            raise ValueError("its header has a tensor of a negative size")
        if size_of_one is not None and stop - at != prod(shape) * size_of_one:
            raise ValueError("its header has a tensor of another size than its shape")
        places[name] = shape, at, stop
    end = 0
    for _, at, stop in sorted(places.values(), key=lambda place: place[1:]):
        if at != end or stop < at:
            raise ValueError("its tensors have gaps, or share bytes")
        end = stop
    if end != size:
        raise ValueError(f"it has {size:,} bytes of tensors, and its header {end:,}")
    return places


_TYPES = {"F32": "<f4", "BF16": "<u2", "F16": "<f2", "I8": "i1", "I64": "<i8"}
_BYTES = {name: np.dtype(kind).itemsize for name, kind in _TYPES.items()}


def _array(path: Path, name: str, dtype: str, shape: list[int], data: bytes) -> np.ndarray:
    if dtype not in _TYPES:
        raise ValueError(
            f"{path} has {name!r} in the type {dtype}; weights of other types than {', '.join(_TYPES)} are refused"
        )
    array = np.frombuffer(bytearray(data), _TYPES[dtype]).reshape(shape)
    if dtype == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "F16" else array


def _check_sizes(config: ModelConfig, stored: Mapping[str, np.ndarray], path: Path) -> None:
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
    columns = stored[_OMEGA].size if _OMEGA in stored else config.width
    if config.attention == "linear" and (config.features.features or 0) > 4 * columns:
        missing.append(_OMEGA)
    if missing:
        raise ValueError(does_not_belong(path, "lacks", missing[0]))
    for name, shape in expected.items():
        check_shape(path, name, stored[name], shape)
    for name in ("realisations", "random_features"):
        if (asked := getattr(config.position, name, 0)) > MOST_DRAWN:
            raise ValueError(
                f"{path.parent / CONFIG} asks for {asked} {name}; at most {MOST_DRAWN} can be used"
            )


def does_not_belong(path: Path, has: str, name: str) -> str:
    """Return the error about a tensor that the file lacks, or has for no reason."""
    return f"{path} {has} tensor {name!r}; it does not belong to the {CONFIG} in the same folder"


def check_shape(path: Path, name: str, tensor: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a tensor, of numpy or torch, has another shape."""
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{path} has {name!r} in shape {tuple(tensor.shape)}, but {CONFIG} says {shape}"
        )


def check_finite(path: Path, name: str, finite: bool) -> None:
    """Raise ValueError unless all values of a tensor are finite."""
    if not finite:
        raise ValueError(f"{path} has values in {name!r} that are not finite")
