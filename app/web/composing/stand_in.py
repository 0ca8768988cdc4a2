"""Which model does what is asked: the one that is asked, or where it cannot, the related one that can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.web.composing.wishes import Ask
from app.web.composing.work import abilities
from app.web.shelf import Shelf

ACTS = {
    "ends": "end a piece on request",
    "infill": "fill in bars",
    "accompany": "write parts to others",
    "chords": "follow given chords",
}


def with_able(shelf: Shelf, ask: Ask) -> Ask:
    """Return a request with the model that does it.

    That is the model asked for if it can, else the first of its family that can. Where none can, the model asked for
    stays, whose own sentence says what it lacks.
    """
    needs = _needs(ask)
    name = ask.model or shelf.first
    family = shelf.language(name).family
    names = [name, *(n for n, spoken in shelf.languages.items() if spoken.family == family)]
    able = (n for n in names if all(_can(_abilities(shelf, n)[need]) for need in needs))
    return replace(ask, model=next(able, name))


def offered(shelf: Shelf, name: str) -> dict[str, Any]:
    """Return what can be asked for with a model on the desk, and by which other it is done where it cannot itself."""
    family = shelf.language(name).family
    own, found = _abilities(shelf, name), {}
    for need, ability in own.items():
        others = ((n, _abilities(shelf, n)[need]) for n in shelf.languages if n != name
                  and shelf.language(n).family == family)  # fmt: skip
        by, other = next(((n, one) for n, one in others if _can(one)), (None, ability))
        if _can(ability) or by is None:
            found[need] = {**ability, "by": None}
        else:
            why = f"{name} cannot {ACTS[need]}, so {by} writes this."
            found[need] = {**other, "by": by, "why": why}
    return found


def _abilities(shelf: Shelf, name: str) -> dict[str, Any]:
    return abilities(shelf.language(name))


def _can(ability: dict[str, Any]) -> bool:
    return bool(ability.get("can") or ability.get("parts"))


def _needs(ask: Ask) -> list[str]:
    if ask.kind != "continue":
        return [ask.kind]
    options = ask.options
    return [need for need, wanted in (("ends", options.ends), ("chords", options.chords)) if wanted]
