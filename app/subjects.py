"""The models under evaluation: what is known of each before its weights are loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from app.models import UNTRAINED, language_of
from musicgen.storage.library import folder_of

if TYPE_CHECKING:
    from musicgen.model.config import ModelConfig

UNTRAINED_LENGTH = 512  # as which an untrained model is probed


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model as it was named, and as tables name it."""

    given: str
    label: str
    language: str
    encoding: str
    trained_length: int  # 0 of an untrained model
    parameters: int | None
    sha256: str  # of the weights; empty for an untrained one
    config: dict[str, Any]
    training: dict[str, Any]
    number: int = 0  # among the models of an evaluation: it looks the same in every figure

    @property
    def identity(self) -> dict[str, Any]:
        """What its results depend on besides settings."""
        return {"weights": self.sha256 or self.given, "config": self.config}

    @property
    def probed_length(self) -> int:
        """The trained length, or one in its stead."""
        return self.trained_length or UNTRAINED_LENGTH

    @property
    def is_stochastic(self) -> bool:
        """Whether its encoding has realisations to choose."""
        return "realisations" in self.config["position"]

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def subjects_of(names: Sequence[str]) -> list[Subject]:
    """Return the models of these names, each once, numbered, with labels that differ."""
    found = [_subject(name) for name in dict.fromkeys(names)]
    # What a model is called by itself, else its folder, else the whole path.
    choices = [(s.label, PurePath(s.given).name, s.given) for s in found]
    taken = [Counter(column) for column in zip(*choices, strict=True)]
    return [
        replace(
            subject,
            number=number,
            label=next(
                (name for name, seen in zip(of_model, taken, strict=True) if seen[name] == 1),
                subject.given,
            ),
        )
        for number, (subject, of_model) in enumerate(zip(found, choices, strict=True))
    ]


def _subject(name: str) -> Subject:
    from musicgen.storage.checkpoint import read_card

    if name.split(":")[0] == UNTRAINED:
        return _untrained(name)
    config, card = read_card(folder_of(name))
    return Subject(
        given=name,
        label=card.name,
        language=card.language["language"],
        encoding=_encoding(config),
        trained_length=card.trained_length,
        parameters=card.parameters,
        sha256=card.sha256,
        config=config.plain(),
        training=card.training,
    )


def _untrained(name: str) -> Subject:
    from app.models import load
    from musicgen.model.performer import parameter_count

    performer = load(name, "cpu").performer
    return Subject(
        given=name,
        label=name,
        language=language_of(name).name,
        encoding=_encoding(performer.config),
        trained_length=0,
        parameters=parameter_count(performer),
        sha256="",
        config=performer.config.plain(),
        training={},
    )


def _encoding(config: ModelConfig) -> str:
    """Return the encoding's name, with the choices that the papers tell variants by."""
    position = config.position
    ungated = getattr(position, "gated", True) is False
    variant = getattr(position, "type", None) or getattr(position, "mask", None)
    name = config.position_name + (" ungated" if ungated else "")
    if getattr(position, "time", "tokens") == "music":
        name += " in musical time"
    return f"{name} ({variant})" if variant else name
