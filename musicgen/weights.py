"""Networks as model folders (checkpoint.py): saving and loading them with torch.

Saving is atomic: the folder always holds one complete model, the old or the new one. The weights are written under
another name; then config.json, which states their hash, is replaced, and then they are renamed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from musicgen.checkpoint import (
    CONFIG,
    FORMAT,
    NEW_WEIGHTS,
    SCALE,
    WEIGHTS,
    Card,
    check_finite,
    check_shape,
    dequantised,
    does_not_belong,
    quantised,
    read_card,
    tensors_of_model,
    weights_path,
)
from musicgen.config import ModelConfig
from musicgen.performer import Performer, parameter_count
from musicgen.position import POSITIONS
from tokenization.whole_file import sync, write_whole

DTYPES = ("float32", "bfloat16", "int8")
# An encoding whose sizes multiply to at most this is built on the CPU to check the shapes of its tensors.
SMALL_POSITION = 1 << 12


def save(
    folder: str | Path, model: Performer, card: Card, dtype: str = "float32",
    only: Collection[str] | None = None,
) -> Card:  # fmt: skip
    """Save a model and return its completed card.

    `dtype` applies to the matrices of linear layers and embeddings; all other tensors keep their own. `only` names the
    tensors of a style.
    """
    if dtype not in DTYPES:
        raise ValueError(f"weights cannot be stored as {dtype!r}; choose {', '.join(DTYPES)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _finish_interrupted_save(folder)
    # A single metadata entry: the order of several varies from run to run, and the hash with it.
    stored = _stored(model, dtype)
    kept = stored if only is None else {name: stored[name] for name in only}
    weights = safetensors.torch.save(kept, {"format": "pt"})
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
    config, card = read_card(folder)
    path, stored = tensors_of_model(Path(folder), config, card)
    _check_position(config, stored, path)
    model = Performer(config, seed=None)
    _fill(model, stored, path)
    return model.to(device).eval(), card


def _stored(model: Performer, dtype: str) -> dict[str, Tensor]:
    """Return a model's tensors as they are stored in the file."""
    matrices = _matrices(model)
    stored: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        tensor = tensor.detach().cpu()
        if name in matrices and dtype == "int8":
            tensor, stored[name + SCALE] = map(torch.from_numpy, quantised(tensor.float().numpy()))
        elif name in matrices:
            tensor = tensor.to(getattr(torch, dtype))
        stored[name] = tensor.contiguous()
    return stored


def _matrices(model: nn.Module) -> set[str]:
    kinds = (nn.Linear, nn.Embedding)
    return {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, kinds)}


def _check_position(config: ModelConfig, stored: Mapping[str, np.ndarray], path: Path) -> None:
    """Check the sizes of an encoding that only the encoding itself knows."""
    # For large sizes only: the meta device allocates nothing, but its arithmetic imports 100 MB of torch's compiler.
    sizes = math.prod(n for n in vars(config.position).values() if type(n) is int and n > 0)
    device = torch.device("cpu" if sizes <= SMALL_POSITION else "meta")
    with device, torch.random.fork_rng([]), suppress(NotImplementedError):  # on meta
        position = POSITIONS[config.position_name](config.position, config.shape())
        for name, empty in position.state_dict(prefix="position.").items():
            if name not in stored:
                raise ValueError(does_not_belong(path, "lacks", name))
            check_shape(path, name, stored[name], tuple(empty.shape))


def _fill(model: Performer, found: Mapping[str, np.ndarray], path: Path) -> None:
    """Copy the stored tensors into a model; raise ValueError unless they are exactly those of the model."""
    expected = model.state_dict()
    stored = dict(found)
    matrices = _matrices(model) & stored.keys()
    scales = {n: stored.pop(n + SCALE) for n in matrices if n + SCALE in stored}
    for name in sorted(expected.keys() ^ stored.keys()):
        has = "lacks" if name in expected else "has a superfluous"
        raise ValueError(does_not_belong(path, has, name))
    for name, tensor in expected.items():
        check_shape(path, name, stored[name], tuple(tensor.shape))
        if name in scales:
            check_shape(path, name + SCALE, scales[name], tuple(tensor.shape[:1]))
    arrays = stored | {name: dequantised(stored[name], scale) for name, scale in scales.items()}
    # Copied, not assigned: a file's tensors have any alignment, on which the summation order of some kernels depends.
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    for name in scales:  # their products can overflow
        check_finite(path, name, bool(expected[name].isfinite().all()))


def _finish_interrupted_save(folder: Path) -> None:
    """Finish a save that was interrupted between its two renames, so that its weights are not overwritten."""
    if (folder / NEW_WEIGHTS).is_file():
        with suppress(ValueError, FileNotFoundError):  # there is no complete model to keep
            os.replace(weights_path(folder, read_card(folder)[1]), folder / WEIGHTS)
