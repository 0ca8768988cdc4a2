"""Which model does what is asked: the one that is asked, or where it cannot, the related one that can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.web.composing.requests import MusicRequest
from app.web.offered_models import OfferedModels
from tokenization.language import Language

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
    able = (n for n in names if all(_can(_abilities(models.language(n))[need]) for need in needs))
    return replace(request, model=next(able, name))


def offered(models: OfferedModels, name: str) -> dict[str, Any]:
    """Return what can be asked for with a model on the desk, and by which other it is done where it cannot itself."""
    own, found = models.language(name), {}
    for need, ability in _abilities(own).items():
        others = ((n, _abilities(one)[need]) for n, one in models.languages.items() if n != name
                  and one.family == own.family)  # fmt: skip
        by, other = next(((n, one) for n, one in others if _can(one)), (None, ability))
        if _can(ability) or by is None:
            found[need] = {**ability, "by": None}
        else:
            why = f"{name} cannot {ACTS[need]}, so {by} writes this."
            found[need] = {**other, "by": by, "why": why}
    return found


def _abilities(language: Language) -> dict[str, Any]:
    """Return what models of a language can be asked for beside going on; each with the reason if not."""
    old = f"This model speaks {language.name}, the first version of its language, and cannot "
    later = f"{language.family}-2"
    missing = f"; one that speaks {later} can."
    fills = type(language).infilling is not Language.infilling
    chords = type(language).on_chords is not Language.on_chords
    return {
        "ends": _ability(language.can_end(), f"{old}be asked for an end{missing}"),
        "infill": _ability(fills, f"{old}fill in bars{missing}"),
        "accompany": {
            "parts": [*language.parts],
            "why": ""
            if language.parts
            else f"This model speaks {language.name} and writes no part to others; one that speaks groove-2 can.",
        },
        "chords": _ability(
            chords, f"This model speaks {language.name}, which names no chords; a piano model can."
        ),
    }


def _ability(can: bool, why: str) -> dict[str, Any]:
    return {"can": can, "why": "" if can else why}


def _can(ability: dict[str, Any]) -> bool:
    return bool(ability.get("can") or ability.get("parts"))


def _needs(request: MusicRequest) -> list[str]:
    if request.kind != "continue":
        return [request.kind]
    options = request.options
    return [need for need, wanted in (("ends", options.ends), ("chords", options.chords)) if wanted]
