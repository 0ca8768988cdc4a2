"""What a run is: its data, model, optimiser and measurements, read from YAML files that state only what differs.

A file may name another as its `base` (a path relative to it); mappings are merged key by key, and `--set a.b=value` is
merged last. A file with `variants` holds a configuration for each of them: `groove-rope` is the variant `rope` of
groove.yaml, which states what differs from the rest of the file, or from another variant, its own `base`. The model is
a preset with overrides, as in musicgen/config.py; its vocabulary comes from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from musicgen.config import ModelConfig, check_compatible
from tokenization.language import Language, with_meanings
from tokenization.records import check_fields, from_plain, from_yaml, nearest, yaml_of
from tokenization.whole_file import is_text

CONFIG = "config.yaml"  # in the folder of a run
CONFIGS = Path(__file__).parent / "configs"
_ALTERNATIVES = {"steps": "epochs", "epochs": "steps"}  # to set one is to unset the other


def _check(config: object, wanted: str, is_right: Callable[[float], bool], *names: str) -> None:
    """Refuse numbers that are wrong, by their names."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not is_right(value):
            raise ValueError(f"{name} is {value}; it must be {wanted}")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which pieces, and how a batch is cut from them."""

    # A prepared data set, or several that are trained on as one; a mapping says how often each is drawn from.
    folder: str | dict[str, float] | tuple[str, ...]
    length: int = 2048  # tokens a step sees of a sequence
    windows: int = 1  # of that length, in which a sequence is learned from, a step each (loop.py)
    batch: int = 4  # sequences a step, over all devices together
    transpose: int = 6  # up to so many semitones up or down
    drop_track: float = 0.0  # groove: with this probability each track is silent (never all)
    mix_drums: float = 0.0  # groove: with this probability the drums are another piece's
    # ensemble: the shares of sequences that are examples of a goal (data/ensemble_examples.py).
    endings: float = 0.0  # count down to the end of their piece
    gaps: float = 0.0  # have a gap to be filled
    accompaniments: float = 0.0  # have parts written to given ones, which come first
    skip_chance: float = 1.0  # of sequences that start at a random bar; the others at the beginning
    skip_step: int = 1  # bars: with more, whole steps of so many, over half of the piece at most
    prefetch: int = 4  # batches prepared ahead
    workers: int = 0  # processes that cut them; 0: a thread

    def __post_init__(self) -> None:
        check_fields(self, "length", "windows", "batch", "prefetch", "skip_step")
        if self.weights is not None and (not self.weights or min(self.weights) <= 0):
            raise ValueError("data.folder gives each set a weight; each must be above 0")
        goals = ("endings", "gaps", "accompaniments")
        _check(self, "0 to 12 semitones", lambda x: 0 <= x <= 12, "transpose")
        _check(self, "0 to below 1", lambda x: 0 <= x < 1, "drop_track")
        _check(self, "0 to 1", lambda x: 0 <= x <= 1, "mix_drums", "skip_chance", *goals)
        _check(self, "0 or more", lambda x: x >= 0, "workers")
        if (total := self.endings + self.gaps + self.accompaniments) > 1:
            raise ValueError(
                f"endings, gaps and accompaniments are {total} together; 1 is all there is"
            )

    @property
    def trained_length(self) -> int:
        """Up to how many tokens of a sequence are learned from."""
        return self.length * self.windows

    @property
    def folders(self) -> tuple[str, ...]:
        """The prepared data sets."""
        return (self.folder,) if isinstance(self.folder, str) else tuple(self.folder)

    def moved(self, folders: Sequence[str]) -> str | dict[str, float] | tuple[str, ...]:
        """Return what `folder` says of the same sets in other folders, one for each."""
        if isinstance(self.folder, dict):
            return dict(zip(folders, self.folder.values(), strict=True))
        return folders[0] if isinstance(self.folder, str) else tuple(folders)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """How often each set is drawn from, where that is said."""
        return tuple(self.folder.values()) if isinstance(self.folder, dict) else None


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Adam or Muon, decoupled weight decay, and a schedule; `epochs` is used where `steps` is not given."""

    method: Literal["adam", "muon"] = "adam"  # muon: for the matrices of layers, Adam for the rest
    learning_rate: float = 2e-4
    schedule: Literal["cosine", "hold"] = "cosine"  # after warm-up; hold falls in the tail alone
    tail: float = 0.2  # the share of a run, at its end
    final_rate: float = 0.1  # of the peak, at the end
    warmup: int = 200  # steps
    steps: int | None = None
    epochs: float | None = None
    cosine_epochs: float | None = None  # in which the rate falls; null: by the end of the run
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    goal_rate: float = 1.0  # times the learning rate, for what positions are told of goals: rare, and zero at first
    position_rate: float = 1.0  # times the learning rate, for what the encoding of position learns
    clip: float = 1.0  # norm of the gradient
    accumulate: int = 1  # backward passes a step; the batch is divided among them
    redraw: float = 0.05  # probability of new random features at a step, or before a sequence of several windows
    redraw_every: int | None = None  # steps from one draw to the next, instead of by chance

    def __post_init__(self) -> None:
        check_fields(self, "accumulate", "redraw_every")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs, and not both")
        _check(self, "above 0", lambda x: x > 0, "steps", "epochs")
        rates = ("learning_rate", "goal_rate", "position_rate", "clip", "epsilon", "cosine_epochs")
        _check(self, "above 0", lambda x: x > 0, *rates)
        _check(self, "0 to 1", lambda x: 0 <= x <= 1, "redraw", "final_rate", "tail")
        _check(self, "0 to below 1", lambda x: 0 <= x < 1, "beta1", "beta2")
        _check(self, "0 or more", lambda x: x >= 0, "warmup", "weight_decay")

    def redraws(self, step: int, drawn: float) -> bool:
        """Tell whether the random features are redrawn at a step; `drawn` is uniform, 0 to 1."""
        return drawn < self.redraw if self.redraw_every is None else step % self.redraw_every == 0


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """The loss on pieces held out, by position, past the trained length too."""

    every: int = 250  # steps
    length: int | None = None  # tokens a sequence; by default 1.5 times the trained length
    sequences: int = 32
    batch: int = 2
    patience: int | None = None  # stop after so many validations without a better loss
    samples: int = 0  # pieces of music written at each validation
    sample_tokens: int = 512

    def __post_init__(self) -> None:
        check_fields(self, "every", "length", "sequences", "batch", "patience", "sample_tokens")
        _check(self, "0 or more", lambda x: x >= 0, "samples")


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """Where and how it is computed; Lightning Fabric carries it."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: int = 1
    nodes: int = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "64-true", "auto"] = "32-true"
    compile: bool | None = None  # the layers, by torch.compile; null: on a GPU, if it works

    def __post_init__(self) -> None:
        check_fields(self, "devices", "nodes")
        if self.strategy == "fsdp" and self.precision == "64-true":
            raise ValueError("fsdp knows no precision 64-true; 32-true or bf16-mixed would work")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run, whole; `model` is a mapping with a preset's name and what differs from it."""

    run: str  # the folder of the run
    data: DataConfig
    optimiser: OptimiserConfig
    model: Any = None
    start: str | None = None  # a trained model, by name or folder, to fine-tune
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    seed: int = 1
    log_every: int = 10
    save_every: int = 250
    keep: int = 2  # checkpoints besides the best

    def __post_init__(self) -> None:
        check_fields(self, "log_every", "save_every", "keep")
        if self.data.windows > 1 and self.optimiser.redraw_every is not None:
            raise ValueError(
                "optimiser.redraw_every would draw new features amid a sequence of several data.windows; "
                "optimiser.redraw draws them between sequences"
            )
        if self.data.windows > 1 and isinstance(self.model, Mapping) and self.model.get("recall"):
            raise ValueError(
                "model.recall takes sequences of one window; give data.length instead of several data.windows"
            )
        if self.optimiser.method == "muon" and self.device.strategy == "fsdp":
            raise ValueError(
                "fsdp cuts matrices in parts, and muon needs them whole; ddp would work"
            )
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it must be at least 0, of 63 bits at most")

    def model_config(self, vocabulary_size: int, language: Language | None = None) -> ModelConfig:
        """Return the model's configuration for a vocabulary, whose language says what its tokens mean."""
        if not isinstance(self.model, Mapping):
            raise ValueError(
                f"model is {self.model!r}, where a mapping (preset: small, …) or a trained start is wanted"
            )
        values = {**self.model, "vocabulary_size": vocabulary_size}
        if language is not None:
            values = with_meanings(values, language)
        preset = values.pop("preset", None)
        config = ModelConfig.preset(preset, **values) if preset else ModelConfig.read(values)
        check_compatible(config)
        return config


def find(name: str) -> Path:
    """Return the path of a configuration: of a file, the folder of a run, or the name of a shipped one.

    That of a variant is in the folder of its file, as if it were a file of its own: `groove-rope.yaml`.
    """
    for path in (Path(name) / CONFIG, Path(name), CONFIGS / f"{name}.yaml"):
        if path.is_file() or _variant_of(path) is not None:
            return path
    raise FileNotFoundError(
        f"there is no configuration {name}: it is neither a file nor the name of a shipped one"
        f"{nearest(name, shipped_names(), 3)}; those are the names, without .yaml, "
        f"of the files in {CONFIGS}, with -VARIANT where a file has variants"
    )


def shipped_names() -> list[str]:
    """Return the names of the shipped configurations."""
    names = []
    for file in CONFIGS.rglob("*.yaml"):
        name = file.relative_to(CONFIGS).with_suffix("").as_posix()
        variants = _stated(file).get("variants")
        names += [name] if variants is None else [f"{name}-{variant}" for variant in variants]
    return sorted(names)


def read(path: Path, changes: Iterable[str] = ()) -> RunConfig:
    """Read a run from a YAML file and `key=value` changes, or say which key or value is wrong."""
    if path.is_file() and (variants := _stated(path).get("variants")):
        names = ", ".join(f"{path.stem}-{variant}" for variant in variants)
        raise ValueError(f"{path} holds several configurations; name one of them: {names}")
    values = _with_base(path, ())
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(
                f"--set {change} has no key and value; write it as key=value, as in data.batch=8"
            )
        values = merged(values, _nested(key.split("."), _value(text, f"--set {change}")))
    values.setdefault("run", f"runs/{path.stem}")
    return from_plain(RunConfig, values, str(path))


def _value(text: str, where: str) -> Any:
    """Return what a change says: YAML, but for names of files that YAML would not take, or cut off at a #."""
    if not is_text(Path(text)):
        return text
    value = from_yaml(text, where)
    is_cut = isinstance(value, str) and value and text.strip().startswith(value)
    return text.strip() if is_cut else value


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with the values of `over`; mappings in both are merged, unless they name different parts."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same = value.get("name", old.get("name")) == old.get("name")
            value = merged(old, value) if same else value
        other = _ALTERNATIVES.get(key)
        if other is not None and value is not None and other not in over:
            result.pop(other, None)
        result[key] = value
    return result


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    return {keys[0]: _nested(keys[1:], value) if len(keys) > 1 else value}


def _with_base(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """Return what a configuration states, merged into what its bases state; a variant differs from its file."""
    path = path.resolve()
    if path in seen:
        raise ValueError(f"{path} is its own base, by way of {', '.join(str(p) for p in seen)}")
    file, variant = _variant_of(path) or (path, None)
    values = _stated(file)
    variants = values.pop("variants", {})
    if variant is not None:
        values = variants[variant]
    base = values.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise ValueError(f"{path}: base is {base!r}, where the path of a file is wanted")
    if variant is not None:
        base = f"{file.stem}-{base}.yaml" if base else file.name
    return merged(_with_base(path.parent / base, (*seen, path)), values) if base else values


def _variant_of(path: Path) -> tuple[Path, str] | None:
    """Return the file that a variant is in, and its name there; None of a path that is no variant."""
    if path.suffix != ".yaml" or path.is_file():
        return None
    for file in sorted(path.parent.glob("*.yaml"), key=lambda file: -len(file.stem)):
        begins, _, name = path.stem.partition(f"{file.stem}-")
        if not begins and name in _stated(file).get("variants", {}):
            return file, name
    return None


def _stated(file: Path) -> dict[str, Any]:
    """Return what a file says."""
    values = yaml_of(file)
    if not isinstance(values, dict):
        raise ValueError(f"{file} holds no mapping of names to values")
    variants = values.get("variants", {})
    if not isinstance(variants, dict) or not all(isinstance(v, dict) for v in variants.values()):
        raise ValueError(f"{file}: variants are not a mapping of names to what each states")
    return values
