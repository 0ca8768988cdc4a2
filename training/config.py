"""The configuration of a run: data, model, optimiser and validation, read from YAML files.

A file states only how it differs from its `base`, the path of another file relative to it; mappings are merged key by
key, and `--set a.b=value` is merged last. A file with `variants` holds one configuration per variant: `groove-rope` is
the variant `rope` of groove.yaml. A variant states how it differs from the rest of the file, or from another variant
that it names as its `base`. The model is a preset with overrides (musicgen/config.py); its vocabulary comes from the
data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from musicgen.config import ModelConfig, check_compatible
from tokenization.language import Language, with_token_roles
from tokenization.records import check_fields, from_plain, from_yaml, nearest, yaml_of
from tokenization.whole_file import is_text

CONFIG = "config.yaml"  # in the folder of a run
CONFIGS = Path(__file__).parent / "configs"
_ALTERNATIVES = {"steps": "epochs", "epochs": "steps"}  # setting one unsets the other


def _check(config: object, wanted: str, is_valid: Callable[[float], bool], *names: str) -> None:
    """Raise ValueError for the first of the named fields that is out of range."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not is_valid(value):
            raise ValueError(f"{name} is {value}; it must be {wanted}")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data sets, and how training sequences are cut from their pieces."""

    # A prepared set, or several that are trained on as one; a mapping gives each set a sampling weight.
    folder: str | dict[str, float] | tuple[str, ...]
    length: int = 2048  # tokens of a sequence per step
    batch: int = 4  # sequences per step, over all devices together
    transpose: int = 6  # at most, in semitones up or down
    drop_track: float = 0.0  # groove, ensemble: probability that a track is left out (never all)
    mix_drums: float = 0.0  # groove: probability that another piece's drums replace its own
    mix_styles: float = 0.0  # ensemble: probability that a band plays in a new style
    add_bands: float = 0.0  # ensemble: probability that bands join a song
    make_plain: float = 0.0  # ensemble: probability that a piece loses its dynamics
    reorchestrate: float = 0.0  # ensemble: probability that a piece is played on other instruments
    unchanged: float = 0.0  # ensemble: probability that a piece without a goal is only transposed
    # ensemble: the fractions of sequences with a goal (data/ensemble_examples.py).
    endings: float = 0.0  # a countdown to the end of the piece
    gaps: float = 0.0  # a gap to be filled
    accompaniments: float = 0.0  # parts to be written to given ones, which come first
    skip_chance: float = 1.0  # probability of a random start bar instead of the first
    skip_step: int = 1  # bars: above 1, starts are multiples of it in the first half
    workers: int = 0  # processes that prepare batches ahead; 0: the training process prepares them

    def __post_init__(self) -> None:
        check_fields(self, "length", "batch", "skip_step")
        if self.weights is not None and (not self.weights or min(self.weights) <= 0):
            raise ValueError("data.folder gives the sets weights; each must be above 0")
        goals = ("endings", "gaps", "accompaniments")
        _check(self, "0 to 12 semitones", lambda x: 0 <= x <= 12, "transpose")
        _check(self, "0 to below 1", lambda x: 0 <= x < 1, "drop_track")
        changes = ("mix_drums", "mix_styles", "add_bands", "make_plain", "reorchestrate")
        fractions = (*changes, "unchanged", "skip_chance", *goals)
        _check(self, "0 to 1", lambda x: 0 <= x <= 1, *fractions)
        _check(self, "0 or more", lambda x: x >= 0, "workers")
        if (total := self.endings + self.gaps + self.accompaniments) > 1:
            raise ValueError(
                f"endings, gaps and accompaniments add up to {total}; the sum must be at most 1"
            )

    @property
    def folders(self) -> tuple[str, ...]:
        """The prepared data sets."""
        return (self.folder,) if isinstance(self.folder, str) else tuple(self.folder)

    def with_folders(self, folders: Sequence[str]) -> str | dict[str, float] | tuple[str, ...]:
        """Return the value of `folder` with other paths for the same sets."""
        if isinstance(self.folder, dict):
            return dict(zip(folders, self.folder.values(), strict=True))
        return folders[0] if isinstance(self.folder, str) else tuple(folders)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The sampling weights of the sets, if given."""
        return tuple(self.folder.values()) if isinstance(self.folder, dict) else None


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Adam or Muon with decoupled weight decay, the learning rate's schedule, and the length of the run."""

    method: Literal["adam", "muon"] = "adam"  # muon: for the layers' matrices; Adam for the rest
    learning_rate: float = 2e-4
    schedule: Literal["cosine", "hold"] = "cosine"  # after warm-up; hold: constant until the tail
    tail: float = 0.2  # the last fraction of the run, in which a held rate falls
    final_rate: float = 0.1  # at the end, as a fraction of the peak
    warmup: int = 200  # steps
    steps: int | None = None  # either these …
    epochs: float | None = None  # … or these
    cosine_epochs: float | None = None  # over which the rate falls; null: the whole run
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    goal_rate: float = 1.0  # rate factor of the goal embeddings, which are rare and start at zero
    position_rate: float = 1.0  # rate factor of the positional encoding's parameters
    clip: float = 1.0  # norm of the gradient
    accumulate: int = 1  # micro-batches per step
    redraw: float = 0.05  # probability of new random features per step
    redraw_every: int | None = None  # steps between redraws, instead of by chance

    def __post_init__(self) -> None:
        check_fields(self, "accumulate", "redraw_every")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs, not both")
        _check(self, "above 0", lambda x: x > 0, "steps", "epochs")
        rates = ("learning_rate", "goal_rate", "position_rate", "clip", "epsilon", "cosine_epochs")
        _check(self, "above 0", lambda x: x > 0, *rates)
        _check(self, "0 to 1", lambda x: 0 <= x <= 1, "redraw", "final_rate", "tail")
        _check(self, "0 to below 1", lambda x: 0 <= x < 1, "beta1", "beta2")
        _check(self, "0 or more", lambda x: x >= 0, "warmup", "weight_decay")

    def redraws(self, step: int, drawn: float) -> bool:
        """Return whether the random features are redrawn at this step; `drawn` is uniform in [0, 1)."""
        return drawn < self.redraw if self.redraw_every is None else step % self.redraw_every == 0


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How the loss on held-out pieces is measured, also past the trained length."""

    every: int = 250  # steps
    length: int | None = None  # tokens per sequence; by default 1.5 times the trained length
    sequences: int = 32
    batch: int = 2
    patience: int | None = None  # validations without a better loss before the run stops

    def __post_init__(self) -> None:
        check_fields(self, "every", "length", "sequences", "batch", "patience")


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """The device and precision of a run (devices.py)."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32-true", "bf16-mixed", "auto"] = "32-true"
    compile: bool | None = None  # the layers, with torch.compile; null: on a GPU, if it works

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig:
    """What preference training (preference) learns from: takes of training prompts by the model it starts from."""

    prompts: int = 128  # training pieces
    takes: int = 4  # of each
    prompt_bars: int = 8
    bars: int = 16  # of each take
    real: bool = False  # the real bars are among the takes that are compared
    layers: int = 6  # that learn, by their norms and biases: the last ones
    beta: float = 1.0  # by which the logarithm of a take's probability ratio, new to old, counts
    trust: float = 2.0  # in the critic: the factor on the difference of its log-odds
    most_loss: float = 0.02  # by which the loss on held-out pieces may rise, in nats per token
    folder: str | None = None  # that keeps the takes, for several runs; null: in that of the run

    def __post_init__(self) -> None:
        check_fields(self, "prompts", "prompt_bars", "bars", "layers")
        _check(self, "2 or more", lambda x: x >= 2, "takes")
        _check(self, "above 0", lambda x: x > 0, "beta", "trust")
        _check(self, "0 or more", lambda x: x >= 0, "most_loss")


@dataclass(frozen=True, kw_only=True)
class RehearsalConfig:
    """How a run keeps what its start knows (rehearsal.py): by takes of the start, from nothing or for some parts."""

    takes: int = 32
    bars: int = 8  # of each take
    length: int = 384  # tokens of it that are rehearsed, at most
    weight: float = 3.0  # of a nat of divergence from the start, against one of loss

    def __post_init__(self) -> None:
        check_fields(self, "takes", "bars", "length")
        _check(self, "above 0", lambda x: x > 0, "weight")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The whole configuration of a run; `model` is a mapping: a preset's name and overrides."""

    run: str  # the folder of the run
    data: DataConfig
    optimiser: OptimiserConfig
    model: Any = None
    start: str | None = None  # a trained model, by name or folder, to fine-tune
    preference: PreferenceConfig | None = None
    rehearsal: RehearsalConfig | None = None
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    device: DeviceConfig = field(default_factory=DeviceConfig)
    seed: int = 1
    log_every: int = 10
    save_every: int = 250
    keep: int = 2  # checkpoints besides the best

    def __post_init__(self) -> None:
        check_fields(self, "log_every", "save_every", "keep")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}; it must be at least 0 and below 2^63")
        if self.preference is not None and self.start is None:
            raise ValueError("preference training needs a trained model: --start MODEL")
        if self.rehearsal is not None and (self.start is None or self.preference is not None):
            raise ValueError("a rehearsal needs a trained model, --start MODEL, and no preference")

    def model_config(self, vocabulary_size: int, language: Language | None = None) -> ModelConfig:
        """Return the model's configuration for a vocabulary; the language defines what its tokens mean."""
        if not isinstance(self.model, Mapping):
            raise ValueError(
                f"model is {self.model!r}; give a mapping, such as {{preset: small}}, or a trained model as start"
            )
        values = {**self.model, "vocabulary_size": vocabulary_size}
        if language is not None:
            values = with_token_roles(values, language)
        preset = values.pop("preset", None)
        config = ModelConfig.preset(preset, **values) if preset else ModelConfig.read(values)
        check_compatible(config)
        return config


def find(name: str) -> Path:
    """Return the path of a configuration, given its file, the folder of a run, or a shipped name.

    A variant's path is that of a file of its own next to the real one: `groove-rope.yaml`.
    """
    for path in (Path(name) / CONFIG, Path(name), CONFIGS / f"{name}.yaml"):
        if path.is_file() or _variant_of(path) is not None:
            return path
    raise FileNotFoundError(
        f"there is no configuration {name}: it is neither a file nor a shipped name"
        f"{nearest(name, shipped_names(), 3)}; shipped names are those of the files in {CONFIGS} "
        "without .yaml, followed by -VARIANT if a file has variants"
    )


def shipped_names() -> list[str]:
    """Return the names of the shipped configurations."""
    names = []
    for file in CONFIGS.rglob("*.yaml"):
        name = file.relative_to(CONFIGS).with_suffix("").as_posix()
        variants = _contents(file).get("variants")
        names += [name] if variants is None else [f"{name}-{variant}" for variant in variants]
    return sorted(names)


def read_named(name: str, changes: Sequence[str]) -> RunConfig:
    """Read a configuration that `find` finds; that of a run keeps its folder, which can have been moved since."""
    config = read(find(name), changes)
    is_run = (Path(name) / CONFIG).is_file()
    if is_run and not any(change.startswith("run=") for change in changes):
        config = replace(config, run=name)
    return config


def read(path: Path, changes: Iterable[str] = ()) -> RunConfig:
    """Read a configuration from a YAML file and apply `key=value` changes; errors name the key or value."""
    if path.is_file() and (variants := _contents(path).get("variants")):
        names = ", ".join(f"{path.stem}-{variant}" for variant in variants)
        raise ValueError(f"{path} holds several configurations; name one of them: {names}")
    values, whole = _with_base(path, ()), dict[str, str]()
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(f"--set {change} is not of the form key=value, such as data.batch=8")
        for other in whole:
            if key.startswith(f"{other}."):
                raise ValueError(f"{change} would replace {whole[other]}; leave out one of them")
        value = _value(text, f"--set {change}")
        if value is not None and not isinstance(value, Mapping):
            whole[key] = change
        values = merged(values, _nested(key.split("."), value))
    values.setdefault("run", f"runs/{path.stem}")
    return from_plain(RunConfig, values, str(path))


def _value(text: str, where: str) -> Any:
    """Return the value of a change: parsed as YAML, or as it is if YAML cannot hold it or cuts it off at a #."""
    if not is_text(Path(text)):
        return text
    value = from_yaml(text, where)
    is_cut = isinstance(value, str) and value and text.strip().startswith(value)
    return text.strip() if is_cut else value


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `over`; mappings are merged recursively, unless their `name`s differ."""
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
    """Return the values of a configuration merged into those of its bases; a variant's base is its file."""
    path = path.resolve()
    if path in seen:
        raise ValueError(f"{path} is its own base, through {', '.join(str(p) for p in seen)}")
    file, variant = _variant_of(path) or (path, None)
    values = _contents(file)
    variants = values.pop("variants", {})
    if variant is not None:
        values = variants[variant]
    base = values.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise ValueError(f"{path}: base is {base!r}; it must be the path of a file")
    if variant is not None:
        base = f"{file.stem}-{base}.yaml" if base else file.name
    return merged(_with_base(path.parent / base, (*seen, path)), values) if base else values


def _variant_of(path: Path) -> tuple[Path, str] | None:
    """Return the file that holds a variant, and its name in it; None if the path is not a variant's."""
    if path.suffix != ".yaml" or path.is_file():
        return None
    for file in sorted(path.parent.glob("*.yaml"), key=lambda file: -len(file.stem)):
        before, _, name = path.stem.partition(f"{file.stem}-")
        if not before and name in _contents(file).get("variants", {}):
            return file, name
    return None


def _contents(file: Path) -> dict[str, Any]:
    """Return the values in a file, without those of its base."""
    values = yaml_of(file)
    if not isinstance(values, dict):
        raise ValueError(f"{file} does not hold a mapping of names to values")
    variants = values.get("variants", {})
    if not isinstance(variants, dict) or not all(isinstance(v, dict) for v in variants.values()):
        raise ValueError(f"{file}: variants must be a mapping of names to mappings")
    return values
