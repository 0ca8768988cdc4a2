"""Dispatches a request to a model: a piece goes on, bars of it are written anew, or parts of it to the others."""

from __future__ import annotations

from dataclasses import replace

from app.web.composing.requests import MusicRequest
from app.web.composing.streamed_takes import Region, StreamedTakes
from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation
from musicgen.options import Options
from musicgen.pieces import Piece, no_prompt
from musicgen.playable import Playable

# More than are asked for, to choose from: where music begins from nothing, which may lack a voice, and by density.
SPARE = 3
MOST_TOGETHER = 8


def streamed_takes(model: Playable, piece: Piece | None, request: MusicRequest) -> StreamedTakes:
    """Return the work that is asked for, ready to be watched; without a piece, music from nothing."""
    if request.kind == "continue":
        return _continued(model, piece, request)
    if piece is None:
        raise ValueError("there is no piece yet; open one, or press Continue to begin one")
    return (
        _infilled(model, piece, request)
        if request.kind == "infill"
        else _accompanied(model, piece, request)
    )


def _continued(model: Playable, piece: Piece | None, request: MusicRequest) -> StreamedTakes:
    prompt = piece.prompt(request.prompt_bars or None) if piece else no_prompt(model.language)
    spare = 0
    options = request.options
    if request.dense or (piece is None and model.language.family == "groove"):
        spare = max(0, min(SPARE, MOST_TOGETHER - options.variations))
        options = replace(options, variations=options.variations + spare)
    region = Region(
        first=prompt.bars,
        stop=prompt.bars + options.bars,
        prompt=prompt.score if prompt.bars else None,
        is_open=True,
        begun=len(model.language.bars(prompt.ids)),
    )
    work = Continuation(model, prompt, options)
    return StreamedTakes(work, region, bars=region.stop, spare=spare, dense=request.dense)


def _infilled(model: Playable, piece: Piece, request: MusicRequest) -> StreamedTakes:
    first, last = request.first, request.last
    if not 1 <= first <= last <= piece.bars:
        # An empty grid, and a piece drawn by hand, have bars that no model hears.
        silent = (
            "; after the last note there is nothing yet, so go on from there"
            if last > piece.bars
            else ""
        )
        raise ValueError(f"bars {first} to {last} were asked for, of {piece.bars}{silent}")
    work = infilling(model, piece, (first, last), _free(request.options))
    return StreamedTakes(work, Region(first=first - 1, stop=last, begun=first), bars=piece.bars)


def _accompanied(model: Playable, piece: Piece, request: MusicRequest) -> StreamedTakes:
    work = accompaniment(model, piece, request.parts, _free(request.options))
    names = [track.name.casefold() for track in piece.score.tracks]
    tracks = tuple(index for index, name in enumerate(names) if name in request.parts)
    region = Region(first=0, stop=piece.bars, tracks=tracks, begun=1)
    return StreamedTakes(work, region, bars=piece.bars)


def _free(options: Options) -> Options:
    """Return options without what only a continuation has."""
    return replace(options, ends=False, chords=None)
