"""Requests for music: plain values, validated and passed to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from app.web.composing.streamed_takes import Region, StreamedTakes
from musicgen.continuation import Continuation, accompaniment, infilling
from musicgen.generation.request import Request
from musicgen.generation.sampling import CONTROLS, MUSICAL, Sampling
from musicgen.pieces import Piece, empty_prompt
from musicgen.playable import Playable
from tokenization.analysis.chords import read_chords
from tokenization.language import Language

MOST_BARS = 128  # of a continuation; a gap is limited by its goal, parts by the piece
MOST_REST = 128  # empty bars before a piece; does not limit requests
MOST_VARIATIONS = 8
LONGEST_TITLE = 80


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
    parts: tuple[int | str, ...] = ()  # to write, as `Language.parts_named` takes them
    idea: Mapping[str, Any] = field(default_factory=dict)  # for a new piece


# The same as plain values.
Kind = Literal["continue", "infill", "accompany"]
Whole = Annotated[int, Field(strict=True)]
Number = Whole | Annotated[float, Field(strict=True, allow_inf_nan=False)]
PartName = Annotated[str, StringConstraints(max_length=200, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(max_length=40, strip_whitespace=True)]
Names = Annotated[list[Name], Field(max_length=32)]  # a language limits how many parts it can write
Parts = Annotated[list[Whole | PartName], Field(max_length=32)]
Curve = Literal["density", "register", "loudness"]
Values = Annotated[list[Number | None], Field(max_length=MOST_BARS)]


class _Idea(BaseModel):
    style: Name = ""
    key: Name = ""
    tempo: Number = 0
    metre: Name = ""
    parts: Names = []
    form: Name = ""


class _Plain(BaseModel):
    kind: Kind = "continue"
    model: str = ""
    title: str = ""
    prompt_bars: Whole | None = Field(None, alias="promptBars")
    rest: Whole = 0
    first: Whole = 0
    last: Whole = 0
    parts: Parts = []
    idea: _Idea | None = None
    bars: Annotated[Whole, Field(ge=1, le=MOST_BARS)]
    variations: Annotated[Whole, Field(ge=1, le=MOST_VARIATIONS)]
    sampling: dict[str, Number]
    ends: bool = False
    chords: Annotated[str, Field(max_length=2000)] = ""
    plan: dict[Curve, Values] | None = None
    form: Name = ""  # of the new bars
    keeps_chords: bool = Field(False, alias="keepsChords")


def request_from(plain: Any) -> MusicRequest:
    """Return the validated request of the page or of a program."""
    if not isinstance(plain, Mapping):
        raise ValueError("the request is not an object with names and values")
    try:
        asked = _Plain.model_validate(plain)
    except ValidationError as error:
        last = error.errors()[-1]  # of a number, after "not an integer"
        said = last["msg"]
        raise ValueError(f"{last['loc'][0]}: {said[0].lower()}{said[1:]}") from None
    if asked.kind == "accompany" and not asked.parts:
        raise ValueError("parts must be a list of the parts to write")
    values = asked.model_dump() | {
        "title": asked.title[:LONGEST_TITLE],
        "rest": max(0, min(MOST_REST, asked.rest)),
        "parts": tuple(asked.parts),
        "idea": {name: value for name, value in asked.idea or () if value},
        "chords": read_chords(line) if (line := asked.chords.strip()) else None,
    }
    form = values.pop("form") or values["idea"].pop("form", "")
    plan = ({"form": form} if form else {}) | (asked.plan or {})
    seed = asked.sampling.get("seed", 0)
    values |= {"plan": plan or None, "seed": seed, "sampling": _sampling(asked)}
    return MusicRequest(**values)


def _sampling(asked: _Plain) -> Sampling:
    """Return the sampling of a request; 0 for a whole number such as top-k means no limit."""
    known = {
        name: (number or None) if CONTROLS[name].step == 1 else float(number)
        for name, number in asked.sampling.items()
        if name in CONTROLS
    }
    return replace(MUSICAL, **known)


# The options of the page that need an ability of the language, and what a model without it cannot do.
NEEDS = {
    "ends": ("end", "write an ending"),
    "infill": ("rewrite", "rewrite bars"),
    "accompany": ("accompany", "accompany other parts"),
    "chords": ("chords", "follow chords"),
    "plan": ("plan", "follow a plan"),
}


def unsupported(language: Language) -> dict[str, str]:
    """Return the options that models of a language do not support, with the reasons."""
    able = language.abilities
    return {
        need: f"Models that use the language {language.name} cannot {act}; those that use ensemble can."
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
    work = infilling(model, piece, (first, last), request, request.parts or None)
    region = Region(first=first - 1, stop=last, tracks=work.goal.tracks, begun=first)
    return StreamedTakes(work, region, bars=piece.bars)


def _accompanied(model: Playable, piece: Piece, request: MusicRequest) -> StreamedTakes:
    work = accompaniment(model, piece, request.parts, request)
    region = Region(first=0, stop=piece.bars, tracks=work.goal.tracks, begun=1)
    return StreamedTakes(work, region, bars=piece.bars)
