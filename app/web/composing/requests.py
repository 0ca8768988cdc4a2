"""Requests for music: plain values, validated and passed to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.web.composing.checks import (
    Check,
    list_of,
    mapping,
    nothing_or,
    number,
    one_of,
    record,
    text,
    truth,
    whole,
)
from app.web.composing.streamed_takes import Region, StreamedTakes
from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.generation.sampling import CONTROLS, MUSICAL, Sampling
from musicgen.pieces import Piece, empty_prompt
from musicgen.playable import Playable
from tokenization.analysis.chords import read_chords
from tokenization.language import Language

MOST_BARS = 128  # of a continuation; a gap is limited by its goal, parts by the piece
MOST_REST = 128  # empty bars before a piece; does not limit requests
MOST_VARIATIONS = 8
MOST_DRAWN = 8  # for each variation
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

NAME = text(40)


def part(value: Any) -> Any:
    """Check for a part: the number of a track, or a name."""
    return text(200)(value) if isinstance(value, str) else whole()(value)


IDEA = record({
    **dict.fromkeys(("style", "key", "metre", "form"), (NAME, "")),
    "tempo": (number, 0),
    "parts": (list_of(NAME, 32), []),
})  # fmt: skip
CURVE = list_of(nothing_or(number), MOST_BARS)  # a value for each bar


def level(value: Any) -> Any:
    """Check for an attribute of a plan: one value for all bars, or one for each."""
    return number(value) if isinstance(value, int | float) else CURVE(value)


PLAIN: Mapping[str, tuple[Check, Any]] = {
    "kind": (one_of("continue", "infill", "accompany"), "continue"),
    "model": (text(), ""),
    "title": (text(), ""),
    "promptBars": (nothing_or(whole()), None),
    **dict.fromkeys(("rest", "first", "last"), (whole(), 0)),
    "parts": (list_of(part, 32), []),  # a language limits how many parts it can write
    "idea": (nothing_or(IDEA), None),
    "bars": (whole(1, MOST_BARS), None),
    "variations": (whole(1, MOST_VARIATIONS), None),
    "draw": (whole(1, MOST_DRAWN), 1),
    "sampling": (mapping(number, lambda name: name), None),
    "ends": (truth, False),
    "chords": (text(2000), ""),
    "form": (NAME, ""),  # of the new bars
    "keepsChords": (truth, False),
    "plan": (nothing_or(mapping(level, one_of("density", "register", "loudness"))), None),
}
NEEDED = ("bars", "variations", "sampling")


def request_from(plain: Any) -> MusicRequest:
    """Return the validated request of the page or of a program."""
    if not isinstance(plain, Mapping):
        raise ValueError("the request is not an object with names and values")
    values: dict[str, Any] = {}
    for name, (check, default) in PLAIN.items():
        if name in NEEDED and name not in plain:
            raise ValueError(f"{name} is missing")
        try:
            values[name] = check(plain[name]) if name in plain else default
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if values["kind"] == "accompany" and not values["parts"]:
        raise ValueError("parts must be a list of the parts to write")
    idea = {name: value for name, value in (values["idea"] or {}).items() if value}
    form = values.pop("form") or idea.pop("form", "")
    line, drawn = values["chords"], values["sampling"]
    plan = ({"form": form} if form else {}) | (values["plan"] or {})
    values |= {
        "title": values["title"][:LONGEST_TITLE],
        "prompt_bars": values.pop("promptBars"),
        "keeps_chords": values.pop("keepsChords"),
        "rest": max(0, min(MOST_REST, values["rest"])),
        "parts": tuple(values["parts"]),
        "idea": idea,
        "chords": read_chords(line) if line else None,
        "plan": plan or None,
        "seed": drawn.get("seed", 0),
        "sampling": _sampling(drawn),
    }
    return MusicRequest(**values)


def _sampling(drawn: Mapping[str, Any]) -> Sampling:
    """Return the sampling of a request; 0 for a whole number such as top-k means no limit."""
    known = {
        name: (number or None) if CONTROLS[name].step == 1 else float(number)
        for name, number in drawn.items()
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
