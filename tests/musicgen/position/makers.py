"""Small encodings for the tests: every registered name, and all options that take another path through the code."""

from typing import Any

import torch
from torch import Tensor

from musicgen.parts import POSITION_CONFIGS, Shape
from musicgen.position import POSITIONS, Position
from tests.musicgen.toys import generator

SHAPE = Shape(layers=3, heads=2, head_width=8, width=16, features=12, bar_ticks=24)

_SPE = [{}, {"gated": False, "shared": False}]
# The options to test for each encoding; encodings not listed are tested with their defaults.
_VARIANTS: dict[str, list[dict[str, Any]]] = {
    "learned": [{"max_length": 20_000}],
    "rope": [{}, {"time": "music"}],
    "sine_spe": [
        *({"realisations": 6, "sines": 3, **choice} for choice in _SPE),
        *({"realisations": 6, "sines": 3, "time": "music", **choice} for choice in _SPE),
        {"realisations": 24, "sines": 1, "orthogonal": True, "time": "music"},
    ],
    "conv_spe": [{"realisations": 6, "taps": 5, **choice} for choice in _SPE],
    "permuteformer": [{}, {"with_permutation": False}, {"time": "music"}],
    "lrpe": [
        {},
        {"type": "orthogonal", "core": "identity"},
        {"type": "permutation"},
        {"type": "mixed", "learned_core": True},
        {"time": "music"},
        {"type": "orthogonal", "time": "music"},
        {"type": "permutation", "time": "music"},
    ],
    "flt": [
        {"random_features": 5, "mask": "gaussian"},
        {"random_features": 5, "mask": "gaussian", "time": "music"},
        {"random_features": 5, "mask": "local"},
        {"random_features": 5, "mask": "local", "frequencies": "folded"},
    ],
}

Case = tuple[str, dict[str, Any]]
CASES: list[Case] = [(name, choice) for name in POSITIONS for choice in _VARIANTS.get(name, [{}])]


def label(case: Case) -> str:
    name, choice = case
    return "-".join([name, *(str(value) for value in choice.values())])


def build(name: str, seed: int = 0, shape: Shape = SHAPE, **choice: Any) -> Any:
    """Build an encoding whose initial parameters depend only on the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return POSITIONS[name](POSITION_CONFIGS[name](**choice), shape)


def inputs(length: int, batch=2, seed=0, dtype=torch.float64) -> dict[str, Tensor]:
    """Return inputs of the hooks: x, q, k and (positive) features fq, fk."""
    source = generator(seed)

    def draw(*size: int) -> Tensor:
        return torch.randn(batch, length, *size, generator=source, dtype=dtype)

    heads, width, features = SHAPE.heads, SHAPE.head_width, SHAPE.features
    return {
        "x": draw(SHAPE.width),
        "q": draw(heads, width),
        "k": draw(heads, width),
        "fq": draw(heads, features).abs() + 1e-3,
        "fk": draw(heads, features).abs() + 1e-3,
    }


def part(given: dict[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    """Return the positions start … stop − 1 of the inputs."""
    return {name: value[:, start:stop] for name, value in given.items()}


def times(start: int, stop: int, batch: int) -> Tensor:
    """Return musical times of tokens, (2, B, T); each row advances at its own pace, and sometimes not at all."""
    number, row = torch.arange(start, stop + 1), torch.arange(batch).unsqueeze(1)
    ticks = number * (1 + row) // 2 + 5 * row
    return torch.stack([ticks[:, 1:], ticks[:, :-1]])


def cover(position: Position, code: Any, start: int, stop: int, batch: int = 2) -> Any:
    """Cover a window, with musical times if the encoding needs them."""
    if not position.musical:
        return position.cover(code, start, stop)
    return position.cover(code, start, stop, times(start, stop, batch))


def run_hooks(position: Position, code: Any, given: dict, start=0, layer=1) -> dict[str, Tensor]:
    """Run all hooks of one layer on a covered code."""
    own = position.of_layer(code, layer)
    q, k = position.qk(given["q"], given["k"], own)
    fq, fk = position.features(given["fq"], given["fk"], own)
    return {"x": position.embed(given["x"], start), "q": q, "k": k, "fq": fq, "fk": fk}


def run(position: Position, given: dict, start=0, layer=1, seed=0) -> dict[str, Tensor]:
    """Draw a code, cover one window and run all hooks on it."""
    batch, length = given["q"].shape[:2]
    code = cover(position, position.begin(generator(seed)), start, start + length, batch)
    return run_hooks(position, code, given, start, layer)


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=tolerance, atol=tolerance)
