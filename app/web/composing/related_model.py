"""Which model does what is asked: the one that is asked, or where it cannot, the related one that can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.web.composing.dispatch import abilities
from app.web.composing.requests import MusicRequest
from app.web.offered_models import OfferedModels

ACTS = {
    "ends": "end a piece on request",
    "infill": "fill in bars",
    "accompany": "write parts to others",
    "chords": "follow given chords",
}


def with_able_model(models: OfferedModels, request: MusicRequest) -> MusicRequest:
    """Return a request with the model that does it.

    That is the model asked for if it can, else the first of its family that can. Where none can, the model asked for
    stays, whose own sentence says what it lacks.
    """
    needs = _needs(request)
    name = request.model or models.first
    family = models.language(name).family
    names = [name, *(n for n, language in models.languages.items() if language.family == family)]
    able = (n for n in names if all(_can(_abilities(models, n)[need]) for need in needs))
    return replace(request, model=next(able, name))


def offered(models: OfferedModels, name: str) -> dict[str, Any]:
    """Return what can be asked for with a model on the desk, and by which other it is done where it cannot itself."""
    family = models.language(name).family
    own, found = _abilities(models, name), {}
    for need, ability in own.items():
        others = ((n, _abilities(models, n)[need]) for n in models.languages if n != name
                  and models.language(n).family == family)  # fmt: skip
        by, other = next(((n, one) for n, one in others if _can(one)), (None, ability))
        if _can(ability) or by is None:
            found[need] = {**ability, "by": None}
        else:
            why = f"{name} cannot {ACTS[need]}, so {by} writes this."
            found[need] = {**other, "by": by, "why": why}
    return found


def _abilities(models: OfferedModels, name: str) -> dict[str, Any]:
    return abilities(models.language(name))


def _can(ability: dict[str, Any]) -> bool:
    return bool(ability.get("can") or ability.get("parts"))


def _needs(request: MusicRequest) -> list[str]:
    if request.kind != "continue":
        return [request.kind]
    options = request.options
    return [need for need, wanted in (("ends", options.ends), ("chords", options.chords)) if wanted]
