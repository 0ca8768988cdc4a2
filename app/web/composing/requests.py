"""Requests for music: plain values, validated and passed to a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.web.composing.streamed_takes import Region, StreamedTakes
from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.generation.sampling import CONTROLS, MUSICAL, Sampling
from musicgen.pieces import Piece, empty_prompt
from musicgen.playable import Playable
from tokenization import wording
from tokenization.analysis.chords import read_chords
from tokenization.language import Language

MOST_BARS = 128  # of a continuation; a gap is limited by its goal, parts by the piece
MOST_REST = 128  # empty bars before a piece; does not limit requests
MOST_VARIATIONS = 8
KINDS = ("continue", "infill", "accompany")
LONGEST_CHORDS = 2000  # characters
LONGEST_NAME = 40
CURVES = ("density", "register", "loudness")  # of a plan on the page
MOST_PARTS = 32  # names; a language limits how many it can write


@dataclass(frozen=True, kw_only=True)
class MusicRequest(Request):
    """A request for a piece on the page: what to write, with which model."""

    kind: str = "continue"
    model: str = ""
    title: str = ""
    prompt_bars: int | None = None  # None or 0 for all
    rest: int = 0  # empty bars before the first note, which the page counts
    first: int = 1  # first bar to rewrite
    last: int = 1
    parts: tuple[str, ...] = ()  # to accompany the others
    idea: Mapping[str, Any] = field(default_factory=dict)  # for a new piece


def request_from(plain: Any) -> MusicRequest:
    """Return the validated request of the page or of a program."""
    if not isinstance(plain, Mapping):
        raise ValueError("the request is not an object with names and values")
    if missing := [name for name in ("bars", "variations", "sampling") if name not in plain]:
        raise ValueError(
            f"{wording.listed(missing)} is missing; give all of bars, variations, sampling"
        )
    seed, sampling = _sampling_from(plain["sampling"])
    idea = idea_from(plain.get("idea") or {})
    form = {"form": name} if (name := idea.pop("form", "")) else {}
    return MusicRequest(
        **_kind_attributes(plain, idea),
        model=str(plain.get("model") or ""),
        title=str(plain.get("title") or "")[:80],
        rest=max(0, min(MOST_REST, _whole("rest", plain.get("rest", 0)))),
        bars=_count(MOST_BARS, "bars", plain["bars"]),
        variations=_count(MOST_VARIATIONS, "variations", plain["variations"]),
        seed=seed,
        sampling=sampling,
        ends=bool(plain.get("ends")),
        chords=_chords_from(plain.get("chords")),
        plan={**form, **_plan_from(plain.get("plan"))} or None,
    )


def _kind_attributes(plain: Mapping[str, Any], idea: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that only requests of this kind have."""
    kind = str(plain.get("kind", "continue"))
    if kind == "continue":
        bars = plain.get("promptBars")
        first = None if bars is None else _whole("promptBars", bars)
        return {"kind": kind, "prompt_bars": first, "idea": idea}
    if kind == "infill":
        return {"kind": kind, **{name: _whole(name, plain.get(name)) for name in ("first", "last")}}
    if kind != "accompany":
        raise ValueError(f"the kind of request is unknown; there are {wording.listed(KINDS)}")
    parts = plain.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
        raise ValueError("parts must be a list of the parts to write")
    if len(parts) > MOST_PARTS:
        raise ValueError(f"{len(parts)} parts were requested; at most {MOST_PARTS} are possible")
    return {"kind": kind, "parts": tuple(str(part)[:LONGEST_NAME] for part in parts)}


def _sampling_from(plain: Any) -> tuple[int, Sampling]:
    """Return the seed and the sampling from plain values; 0 for a whole number such as top-k means no limit."""
    if not isinstance(plain, Mapping):
        raise ValueError("sampling is not an object with names and values")
    numbers: dict[str, Any] = {}
    for name, control in CONTROLS.items():
        if name in plain:
            is_whole, number = control.step == 1, plain[name]
            numbers[name] = (
                _whole(name, number) or None if is_whole else float(_check_number(name, number))
            )
    return _whole("seed", plain.get("seed", 0)), replace(MUSICAL, **numbers)


def _chords_from(plain: Any) -> list[list[str]] | None:
    """Return a chord progression, or None if it is empty."""
    line = str(plain or "").strip()
    if len(line) > LONGEST_CHORDS:
        raise ValueError(
            f"the chords have {len(line)} characters; at most {LONGEST_CHORDS} are possible"
        )
    return read_chords(line) if line else None


def _count(most: int, name: str, number: Any) -> int:
    """Return a count from 1 to `most`."""
    if not 1 <= (count := _whole(name, number)) <= most:
        raise ValueError(f"{count} {name} were requested; 1 to {most} are possible at a time")
    return count


def idea_from(plain: Any) -> dict[str, Any]:
    """Return the idea for a new piece from plain values, without the empty ones."""
    if not isinstance(plain, Mapping):
        raise ValueError("an idea is not an object with names and values")
    idea = {str(name)[:LONGEST_NAME]: value for name, value in plain.items() if value}
    if "tempo" in idea:
        _check_number("tempo", idea["tempo"])
    if "parts" in idea:
        names = idea["parts"].split(",") if isinstance(idea["parts"], str) else idea["parts"]
        if not isinstance(names, Sequence) or len(names) > MOST_PARTS:
            raise ValueError(f"parts must be a list of at most {MOST_PARTS} instruments")
        named = (str(name).strip()[:LONGEST_NAME] for name in names)
        idea["parts"] = [name for name in named if name]
    for name in idea.keys() - {"tempo", "parts"}:
        idea[name] = str(idea[name]).strip()[:LONGEST_NAME]
    return idea


def _plan_from(plain: Any) -> dict[str, list[float | None]]:
    """Return the plan of the new bars from plain values; the language checks their ranges."""
    if plain is None:
        return {}
    if not isinstance(plain, Mapping):
        raise ValueError("a plan is not an object with names and values")
    plan = {}
    for name, each in plain.items():
        if name not in CURVES:
            raise ValueError(f"the plan of a bar can have {wording.listed(CURVES)}")
        if not isinstance(each, list) or len(each) > MOST_BARS:
            raise ValueError(f"the plan's {name} must be a list of at most {MOST_BARS} numbers")
        for number in each:
            if number is not None:
                _check_number(name, number)
        plan[name] = each
    return plan


def _whole(name: str, number: object) -> int:
    """Return a whole number of a request."""
    if (found := _check_number(name, number)) != int(found):
        raise ValueError(f"{name} is {found}; it must be a whole number")
    return int(found)


def _check_number(name: str, number: object) -> float:
    if number is None:
        raise ValueError(f"{name} is empty; it must be a number")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{name} is not a number")
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; it must be finite")
    return number


# The options of the page that need an ability of the language, and what a model without it cannot do.
NEEDS = {
    "ends": ("end", "write an ending"),
    "infill": ("rewrite", "rewrite bars"),
    "accompany": ("accompany", "write parts to others"),
    "chords": ("chords", "follow chords"),
    "plan": ("plan", "follow a plan"),
}


def unsupported(language: Language) -> dict[str, str]:
    """Return the options that models of a language do not support, with the reasons."""
    able = language.abilities
    return {
        need: f"Models with the language {language.name} cannot {act}; those with ensemble can."
        for need, (ability, act) in NEEDS.items()
        if ability not in able
    }


def streamed_takes(model: Playable, piece: Piece | None, request: MusicRequest) -> StreamedTakes:
    """Return the takes of a request, ready to be streamed; without a piece, those of a new one."""
    if request.kind == "continue":
        return _continued(model, piece, request)
    if piece is None:
        raise ValueError("there is no piece yet; open one, or press Generate to write one")
    return (
        _infilled(model, piece, request)
        if request.kind == "infill"
        else _accompanied(model, piece, request)
    )


def _continued(model: Playable, piece: Piece | None, request: MusicRequest) -> StreamedTakes:
    prompt = (
        piece.prompt(request.prompt_bars or None)
        if piece
        else empty_prompt(model.language, request.idea, request.plan)
    )
    region = Region(
        first=prompt.bars,
        stop=prompt.bars + request.bars,
        prompt=prompt.score if prompt.bars else None,
        is_open=True,
        begun=len(model.language.bars(prompt.ids)),
    )
    work = Continuation(model, prompt, request)
    return StreamedTakes(work, region, bars=region.stop)


def _infilled(model: Playable, piece: Piece, request: MusicRequest) -> StreamedTakes:
    first, last = request.first, request.last
    if not 1 <= first <= last <= piece.bars:
        # Edited pieces can have empty bars at the end, which models do not read.
        silent = "; continue from the last note instead" if last > piece.bars else ""
        within = f"the {piece.bars} bars of the piece{silent}"
        raise ValueError(f"bars {first} to {last} are not within {within}")
    work = infilling(model, piece, (first, last), request)
    return StreamedTakes(work, Region(first=first - 1, stop=last, begun=first), bars=piece.bars)


def _accompanied(model: Playable, piece: Piece, request: MusicRequest) -> StreamedTakes:
    work = accompaniment(model, piece, request.parts, request)
    region = Region(first=0, stop=piece.bars, tracks=work.goal.tracks, begun=1)
    return StreamedTakes(work, region, bars=piece.bars)
