"""Models for users: found by name, they read music and continue, rewrite or accompany it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from musicgen.checkpoint import (
    Card,
    base_of,
    folder_of,
    named,
    read_card,
    shipped,
    tensors_of_model,
)
from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation, Player, Take
from musicgen.critic import FILE as CRITIC
from musicgen.critic import Critic
from musicgen.generation.batch import Network
from musicgen.generation.request import DRAWN, Request
from musicgen.generation.sampling import Sampling
from musicgen.kernel.lanes import Lanes
from musicgen.kernel.network import KernelNetwork
from musicgen.kernel.packing import lacking
from musicgen.pieces import Piece, empty_prompt, piece_of, read_piece
from tokenization.formats import midi_of
from tokenization.language import ANOTHER, LANGUAGES, Language, language, language_from_spec
from tokenization.records import json_of
from tokenization.score import Score

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI

    from musicgen.config import ModelConfig
    from musicgen.performer import Performer


Found = TypeVar("Found")
Source: TypeAlias = "bytes | str | Path | Score | Piece | PrettyMIDI | Music"
"""The path or the bytes of a file (MIDI, MusicXML, ABC), a score, a piece, or an object of pretty_midi or muspy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Playable(Player):
    """A model that reads music and continues, rewrites or accompanies it; `musicgen.load` returns one.

    `language` is its token language, and `performer` its network. `language.abilities` names what it can do.
    """

    encoding: str = ""  # the positional encoding with its variant, as the papers name them
    parameters: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)  # how it was trained, from its card
    number: int = 0  # among compared models: its colour in every figure

    @property
    def slow_because(self) -> str:
        """Why torch computes the music, token by token; empty if the kernel does."""
        lack = getattr(self.network, "lacks", "")
        return lack and f"torch computes {self.name} slowly, since the kernel does not know {lack}"

    def read(self, source: Source, *, tracks: Any = None) -> Piece:
        """Read music as a piece in the model's language; its `remarks` say what was assumed or changed.

        `source` is the path or the bytes of a file (MIDI, MusicXML, ABC), a Score, a Piece, or an object of pretty_midi
        or muspy. `tracks` chooses tracks by index or name; for the language groove, as {"bass": …, "drums": …}.
        """
        if isinstance(source, Piece):
            if source.language.name == self.language.name and tracks is None:
                return source
            source = source.score
        if isinstance(source, Score):
            return piece_of(self.language, source, "", tracks)
        if not isinstance(source, bytes | str | Path):
            source = midi_of(source)
        name = "" if isinstance(source, bytes) else Path(source).name
        return read_piece(self.language, source, name=name, tracks=tracks)

    def continue_(
        self,
        source: Source | None = None,
        *,
        prompt_bars: int | None = None,
        tracks: Any = None,
        bars: int | None = None,
        tokens: int | None = None,
        variations: int = Request.variations,
        draw: int = DRAWN,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        ends: bool = Request.ends,
        chords: str | None = None,
        plan: dict[str, Any] | None = None,
        idea: dict[str, Any] | None = None,
        free: bool = Request.free,
    ) -> list[Take]:
        """Continue a piece, or write one from nothing, and return the variations.

        - `source`: the music to continue, as `read` takes it; None to begin from nothing.
        - `prompt_bars`: continue the first bars; by default, the whole piece.
        - `bars` or `tokens`: the length of the continuation; by default, 16 bars.
        - `variations`: the number of takes to return.
        - `draw`: the number of takes drawn for each; every four bars, all go on from the one that the model's critic
          prefers, if it has one.
        - `seed`: the same request with the same seed gives the same takes.
        - `sampling`: how freely tokens are chosen, such as Sampling(temperature=0.9).
        - `ends`: the music ends with the last bar.
        - `chords`: the chords of each bar, repeated until the end, such as "C | G7 | Am F | C".
        - `plan`: attributes of the new bars, such as {"density": 4, "register": [60, 60, 72, 72], "loudness": 80,
          "players": 3, "form": "A A B A"}; a list has one value per bar.
        - `idea`: what a piece from nothing is to be, such as {"style": "song", "key": "G minor", "tempo": 90,
          "metre": "3/4", "parts": ["flute", "piano"]}.
        - `free`: parts may leave their range and habits, winds play chords, the metre change, endings play on, and new
          parts disregard the given ones.

        Raises ValueError for what the model's language cannot express.
        """
        from tokenization.analysis.chords import read_chords

        if bars is not None and tokens is not None:
            raise ValueError(f"bars is {bars} and tokens is {tokens}; give only one of them")
        request = Request(
            bars=Request.bars if bars is None else bars,
            tokens=tokens,
            variations=variations,
            draw=draw,
            seed=seed,
            sampling=sampling,
            ends=ends,
            chords=None if chords is None else read_chords(chords),
            plan=plan,
            free=free,
        )
        if source is None:
            prompt = empty_prompt(self.language, idea, plan)
        elif idea:
            raise ValueError("an idea applies only to a new piece; give either an idea or a piece")
        else:
            prompt = self.read(source, tracks=tracks).prompt(prompt_bars)
        return Continuation(self, prompt, request).finish().takes()

    def infill(
        self,
        source: Source,
        bars: tuple[int, int],
        *,
        parts: int | str | Collection[int | str] | None = None,
        tracks: Any = None,
        variations: int = Request.variations,
        draw: int = DRAWN,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        plan: dict[str, Any] | None = None,
        free: bool = Request.free,
    ) -> list[Take]:
        """Rewrite the bars from the first to the last of `bars`, counted from 1, and return the variations.

        `parts` names those to rewrite there, as in `accompany`; None for all. A part that the piece lacks is added. All
        other notes are kept. The other arguments are those of `continue_`.
        """
        request = Request(
            variations=variations, draw=draw, seed=seed, sampling=sampling, plan=plan, free=free
        )
        piece, named = self.read(source, tracks=tracks), None if parts is None else _names(parts)
        return infilling(self, piece, bars, request, named).finish().takes()

    def accompany(
        self,
        source: Source,
        write: int | str | Collection[int | str],
        *,
        tracks: Any = None,
        variations: int = Request.variations,
        draw: int = DRAWN,
        seed: int = Request.seed,
        sampling: Sampling = Request.sampling,
        plan: dict[str, Any] | None = None,
        free: bool = Request.free,
    ) -> list[Take]:
        """Write parts to the other parts of a piece, and return the variations.

        `write` names the parts: the name of a track, such as "Lead Vocal"; its index in the tracks of the piece; any
        instrument of General MIDI, "bass", "drums" or "chords", which are found by their programs. A part of the piece
        is replaced; one that the piece lacks, or that is named with a plus as in "+violin", is added. The other
        arguments are those of `continue_`.
        """
        request = Request(
            variations=variations, draw=draw, seed=seed, sampling=sampling, plan=plan, free=free
        )
        piece = self.read(source, tracks=tracks)
        return accompaniment(self, piece, _names(write), request).finish().takes()


def _names(parts: int | str | Collection[int | str]) -> list[int | str]:
    """Return the names of parts as a list, without repeated ones that add none."""
    given = [parts] if isinstance(parts, int | str) else [*parts]
    return [one for n, one in enumerate(given) if one not in given[:n] or str(one)[:1] == ANOTHER]


# A model's name is that of one in the package, of a style, the path of a folder, or `untrained:PRESET[:LANGUAGE]`.

UNTRAINED = "untrained"
DEFAULT = "ensemble"


def load(name: str | Path = DEFAULT, device: str = "auto") -> Playable:
    """Return a model with its weights.

    `name` is that of a model in the package or a style (`musicgen.models()` lists them), the folder of a model or of a
    training run, or "untrained:PRESET" for random weights. `device` is cpu, cuda or mps; auto takes a GPU if there is
    one.
    """
    model = find(name, device)
    model.network  # noqa: B018  reads the weights, so that errors in them are raised here
    return model


def find(name: str | Path, device: str = "auto") -> Playable:
    """Return a model as `load` does, but read its weights only when they are first needed."""
    name = str(name)
    if name.split(":")[0] == UNTRAINED:
        return _untrained(name, device)
    folder = folder_of(name)
    config, card = read_card(folder)
    model_language = language_from_spec(card.language)
    if (size := config.vocabulary_size) != len(model_language.vocabulary):
        raise ValueError(
            f"{folder} has {size} tokens and its language {len(model_language.vocabulary)}; save the model again"
        )
    return Playable(
        name=card.name,
        language=model_language,
        read_performer=partial(_read_performer, folder, device, card.sha256),
        read_network=partial(_read_network, folder, device, card.sha256),
        read_critic=partial(_read_critic, folder, card),
        trained_length=card.trained_length,
        sha256=card.sha256,
        given=name,
        encoding=encoding_of(config),
        parameters=card.parameters,
        config=config.plain(),
        training=card.training,
    )


def language_of(name: str) -> Language:
    """Return the language of a model, without reading weights or importing torch."""
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


def readable(read: Callable[[str], Found]) -> tuple[dict[str, Found], list[str]]:
    """Return what is read of each model in the package and each style, and a sentence for each damaged style."""
    found, left_out = dict[str, Found](), list[str]()
    for name in named():
        try:
            found[name] = read(name)
        except (ValueError, OSError) as error:
            if name in shipped():
                raise
            left_out.append(f"The style {name!r} is left out: {error}.")
    return found, left_out


def models() -> list[dict[str, Any]]:
    """Describe each model in the package and each style that can be read, without reading weights."""
    return [*readable(described)[0].values()]


def described(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Describe a model for `musicgen models`."""
    found = find(folder or folder_of(name))
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
        "style": found.training.get("style"),
    }


def device_of(name: str) -> str:
    """Return the name of a torch device; `auto` takes a GPU if there is one."""
    import torch

    gpu = torch.accelerator.current_accelerator(check_available=True)
    available = ["cpu"] if gpu is None else [gpu.type, "cpu"]
    if name == "auto":
        return available[0]
    if name not in available:
        raise ValueError(
            f"there is no device {name!r} on this machine; choose from auto, {', '.join(available)}"
        )
    return name


def encoding_of(config: ModelConfig) -> str:
    """Return the name of the positional encoding with its variant, as the papers name them."""
    position = config.position
    ungated = getattr(position, "gated", True) is False
    variant = getattr(position, "type", None) or getattr(position, "mask", None)
    name = config.position_name + (" ungated" if ungated else "")
    if position.musical:
        name += " in musical time"
    return f"{name} ({variant})" if variant else name


def _read_network(folder: Path, device: str, sha256: str) -> Network:
    """Place the weights in a kernel, or in torch if the kernel does not know a part of the model."""
    config, card = read_card(folder)
    if lacking(config):
        from musicgen.eager import EagerNetwork

        return EagerNetwork(_read_performer(folder, device, sha256))
    if device not in ("auto", "cpu"):
        device_of(device)  # which says what there is
    _check_same(card, sha256)

    def in_kernel() -> KernelNetwork:
        path, tensors = tensors_of_model(folder, config, card)
        return KernelNetwork(config, tensors, path)

    return Lanes(in_kernel)


def _read_critic(folder: Path, card: Card) -> Critic | None:
    """Read the critic in a model's folder, or for a style in that of its base, if there is one."""
    path = (base_of(card) if card.base else folder) / CRITIC
    return Critic.read(path) if path.is_file() else None


def _read_performer(folder: Path, device: str, sha256: str) -> Performer:
    """Read the weights as a torch module."""
    from musicgen.weights import load as load_weights

    performer, card = load_weights(folder, device_of(device))
    _check_same(card, sha256)
    return performer


def _check_same(card: Card, sha256: str) -> None:
    """Check the hash of weights: a file must not name a model that has been saved again since."""
    if card.sha256 != sha256:
        raise ValueError("this model was saved again after it was found; load it again")


def _untrained(name: str, device: str) -> Playable:
    """Return a preset with random weights, which writes valid but meaningless music."""
    from musicgen.config import ModelConfig
    from musicgen.performer import Performer, parameter_count

    model_language = language_of(name)
    preset = name.split(":")[1] if ":" in name else ""
    config = ModelConfig.preset(
        preset or "tiny", vocabulary_size=len(model_language.vocabulary), position="sine_spe"
    )
    return Playable(
        name=name,
        language=model_language,
        read_performer=partial(_random_performer, config, device),
        given=name,
        encoding=encoding_of(config),
        parameters=parameter_count(Performer(config, seed=None)),
        config=config.plain(),
    )


def _random_performer(config: ModelConfig, device: str) -> Performer:
    from musicgen.performer import Performer

    return Performer(config, seed=0).to(device_of(device)).eval()
