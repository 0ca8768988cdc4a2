"""A model with its language: it reads music and goes on from it; models are found by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation, Player, Take
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.pieces import Piece, no_prompt, piece_of, read_piece
from tokenization.formats import midi_of
from tokenization.language import LANGUAGES, Language, language, language_from_spec
from tokenization.records import json_of, suggestion, value_of
from tokenization.score import Score

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI

    from musicgen.config import ModelConfig
    from musicgen.performer import Performer


Source: TypeAlias = "bytes | str | Path | Score | Piece | PrettyMIDI | Music"
"""Music from anywhere: a file's path or bytes (MIDI, MusicXML, ABC), a score, a piece, or an object of pretty_midi or
muspy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Playable(Player):
    """A model as the library has it: what else is known of it, and what it can be asked to do."""

    encoding: str = ""  # of position, with the choices that the papers tell variants by
    parameters: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)  # what its card says of that
    number: int = 0  # among models that are compared: it looks the same in every figure

    def read(self, source: Source, *, tracks: Any = None) -> Piece:
        """Return a piece as this model hears it; `remarks` say what was assumed."""
        if isinstance(source, Piece):
            return self._heard(source, tracks)
        if isinstance(source, Score):
            return piece_of(self.language, source, "", tracks)
        if not isinstance(source, bytes | str | Path):
            source = midi_of(source)
        name = "" if isinstance(source, bytes) else Path(source).name
        return read_piece(self.language, source, name=name, tracks=tracks)

    def _heard(self, piece: Piece, tracks: Any) -> Piece:
        """Return a piece that was read before, perhaps by a model of another language, which has other tokens."""
        if tracks is not None:
            raise ValueError(
                f"{piece.name or 'the piece'} was read with the tracks that it has; read its file with others"
            )
        if piece.language.name == self.language.name:
            return piece
        encoded = piece_of(self.language, piece.score, piece.name)
        remarks = tuple(dict.fromkeys((*piece.remarks, *encoded.remarks)))
        return replace(encoded, remarks=remarks, tracks=piece.tracks)

    def continue_(
        self,
        source: Source | None = None,
        *,
        prompt_bars: int | None = None,
        tracks: Any = None,
        bars: int | None = None,
        tokens: int | None = None,
        variations: int = Request.variations,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        may_end: bool = Request.may_end,
        ends: bool = Request.ends,
        chords: str | None = None,
        plan: dict[str, Any] | None = None,
        idea: dict[str, Any] | None = None,
    ) -> list[Take]:
        """Return variations that go on from the first bars of a piece, or from all of it; from nothing without one.

        From nothing, an `idea` may say how: {"style": "song", "key": "G minor", "tempo": 90, "metre": "3/4", "parts":
        ["flute", "piano"]}.

        The length is `bars`, 16 where nothing is said, or `tokens` instead. `chords` is a line such as
        "C | G7 | Am F | C", a bar between bars, kept to over and over. `plan` says what
        the new bars are to be like: {"density": 4, "form": "A A B A"} (tokenization/ensemble/plans.py).
        """
        from tokenization.analysis.chords import read_chords

        if bars is not None and tokens is not None:
            raise ValueError(
                f"bars is {bars} and tokens is {tokens}; give one of them as the length"
            )
        request = Request(
            bars=Request.bars if bars is None else bars,
            tokens=tokens,
            variations=variations,
            seed=seed,
            sampling=sampling,
            may_end=may_end,
            ends=ends,
            chords=None if chords is None else read_chords(chords),
            plan=plan,
        )
        if source is None:
            prompt = no_prompt(self.language, idea, plan)
        elif idea:
            raise ValueError("an idea is for a piece from nothing: leave it out, or the piece")
        else:
            prompt = self.read(source, tracks=tracks).prompt(prompt_bars)
        return Continuation(self, prompt, request).finish().takes()

    def infill(
        self,
        source: Source,
        bars: tuple[int, int],
        *,
        tracks: Any = None,
        variations: int = Request.variations,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        plan: dict[str, Any] | None = None,
    ) -> list[Take]:
        """Return the piece with its bars from the first to the last one rewritten, counted from 1."""
        request = Request(variations=variations, seed=seed, sampling=sampling, plan=plan)
        return infilling(self, self.read(source, tracks=tracks), bars, request).finish().takes()

    def accompany(
        self,
        source: Source,
        write: str | Collection[str],
        *,
        tracks: Any = None,
        variations: int = Request.variations,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        plan: dict[str, Any] | None = None,
    ) -> list[Take]:
        """Return the piece with some parts written to the rest: instruments, or bass, drums and other of a groove."""
        request = Request(variations=variations, seed=seed, sampling=sampling, plan=plan)
        parts = [write] if isinstance(write, str) else [*dict.fromkeys(write)]
        piece = self.read(source, tracks=tracks)
        return accompaniment(self, piece, parts, request).finish().takes()


# Models by name: those in the package, any folder by its path, and untrained ones as `untrained:PRESET[:LANGUAGE]`.

UNTRAINED = "untrained"
DEFAULT = "ensemble"


def shipped() -> dict[str, Path]:
    """Return the models inside the package, name → folder."""
    root = Path(str(files("musicgen") / "pretrained"))
    found = sorted(p for p in root.glob("*") if (p / "config.json").is_file())
    return {path.name: path for path in found}


def folder_of(name: str) -> Path:
    """Return the folder of a model given by name or path."""
    by_name = shipped()
    if name in by_name:
        return by_name[name]
    path = Path(name)
    if (path / "config.json").is_file():
        return path
    if (path / "model" / "config.json").is_file():  # the folder of a training run
        return path / "model"
    raise FileNotFoundError(
        f"there is no model {name!r}: it is neither the name of one in the package nor a folder with a config.json"
        f"{suggestion(name, by_name)}"
    )


def load(name: str | Path = DEFAULT, device: str = "auto") -> Playable:
    """Return a model by name or path, its weights read."""
    model = find(name, device)
    model.performer  # noqa: B018  what is wrong with its weights is to be known now
    return model


def find(name: str | Path, device: str = "auto") -> Playable:
    """Return a model by name or path; its weights are read when they are first needed."""
    name = str(name)
    if name.split(":")[0] == UNTRAINED:
        return _untrained(name, device)
    from musicgen.checkpoint import read_card

    folder = folder_of(name)
    config, card = read_card(folder)
    where, stored = f"{folder}: longest_ticks", card.training.get("longest_ticks")
    speaks = language_from_spec(card.language)
    longest = value_of(tuple[int, ...] | None, stored, where)
    speaks.grammar(longest_ticks=longest)  # which refuses what is none
    if (size := config.vocabulary_size) != len(speaks.vocabulary):
        raise ValueError(
            f"{folder} has {size} tokens, but its language has {len(speaks.vocabulary)}; save the model again"
        )
    return Playable(
        name=card.name,
        language=speaks,
        weights=partial(_read_weights, folder, device, card.sha256),
        trained_length=card.trained_length,
        sha256=card.sha256,
        longest_ticks=None if longest is None else [*longest],
        given=name,
        encoding=encoding_of(config),
        parameters=card.parameters,
        config=config.plain(),
        training=card.training,
    )


def language_of(name: str) -> Language:
    """Return the language of a model without its weights, and without importing torch."""
    if name.split(":")[0] == UNTRAINED:
        return language(name.split(":")[2] if name.count(":") > 1 else "remi")
    path = folder_of(name) / "config.json"
    try:
        spec = json_of(path)["card"]["language"]
        return language_from_spec({**spec})
    except (KeyError, TypeError):
        raise ValueError(
            f"{path} does not describe a model; copy or save the model again"
        ) from None


def models() -> list[dict[str, Any]]:
    """Return what is known of each model in the package, without reading weights."""
    return [described(name, folder) for name, folder in shipped().items()]


def described(name: str, folder: Path) -> dict[str, Any]:
    """Return what `musicgen models` says of one model."""
    found = find(folder)
    return {
        "name": name,
        "plays": LANGUAGES[found.language.name],
        "can": [*found.language.abilities],
        "data": found.training.get("data"),
        "language": found.language.name,
        "encoding": found.config["position"]["name"],
        "parameters": found.parameters,
        "trained_length": found.trained_length,
        "validation_loss": found.training.get("validation_loss"),
    }


def device_of(name: str) -> str:
    """Return a device of torch; `auto` takes a GPU where there is one."""
    import torch

    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, here in available.items() if here)
    if name not in available:
        raise ValueError(f"there is no device {name!r}; there are auto, {', '.join(available)}")
    if not available[name]:
        raise ValueError(
            f"device {name} is not at hand on this machine; --device auto finds one that is"
        )
    return name


def encoding_of(config: ModelConfig) -> str:
    """Return the encoding's name, with the choices that the papers tell variants by."""
    position = config.position
    ungated = getattr(position, "gated", True) is False
    variant = getattr(position, "type", None) or getattr(position, "mask", None)
    name = config.position_name + (" ungated" if ungated else "")
    if getattr(position, "time", "tokens") == "music":
        name += " in musical time"
    return f"{name} ({variant})" if variant else name


def _read_weights(folder: Path, device: str, sha256: str) -> Performer:
    """Return the weights with this hash: what is said to come of a model does not come of one saved since."""
    from musicgen.checkpoint import load as load_checkpoint

    performer, card = load_checkpoint(folder, device_of(device))
    if card.sha256 != sha256:
        raise ValueError("this model was saved again since it was found; start again")
    return performer


def _untrained(name: str, device: str) -> Playable:
    """Return a preset with random weights: it writes valid music that makes no sense."""
    from musicgen.config import ModelConfig
    from musicgen.performer import Performer, parameter_count

    speaks = language_of(name)
    preset = name.split(":")[1] if ":" in name else ""
    config = ModelConfig.preset(
        preset or "tiny", vocabulary_size=len(speaks.vocabulary), position="sine_spe"
    )
    return Playable(
        name=name,
        language=speaks,
        weights=partial(_random_weights, config, device),
        given=name,
        encoding=encoding_of(config),
        parameters=parameter_count(Performer(config, seed=None)),
        config=config.plain(),
    )


def _random_weights(config: ModelConfig, device: str) -> Performer:
    from musicgen.performer import Performer

    return Performer(config, seed=0).to(device_of(device)).eval()
