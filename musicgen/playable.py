"""A model with its language: it reads music, goes on from it, and knows itself; loading.py finds it by name.

model = musicgen.load("ensemble")
takes = model.continue_("song.mid", prompt_bars=8, bars=16, variations=2, seed=7)
takes[0].save("out.mid")
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation, Take
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.pieces import Piece, no_prompt, piece_of, read_piece
from tokenization.formats import midi_of
from tokenization.language import Language
from tokenization.score import Score

if TYPE_CHECKING:
    from muspy import Music
    from pretty_midi import PrettyMIDI

    from musicgen.model.performer import Performer

Source: TypeAlias = "bytes | str | Path | Score | Piece | PrettyMIDI | Music"
"""Music from anywhere: a file's path or bytes (MIDI, MusicXML, ABC), a score, a piece, or an object of pretty_midi or
muspy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Playable:
    """A model that can be played: what is known of it, its language, and its weights when they are needed."""

    name: str  # by which tables and files call it
    language: Language
    weights: Callable[[], Performer]  # reads them; can be pickled, for other processes to read them
    trained_length: int = 0  # tokens; 0 of an untrained one
    sha256: str = ""  # of its weights; empty for an untrained one
    longest_ticks: list[int] | None = None  # of notes in its training data, if it keeps to them
    given: str = ""  # the name or path by which it was found
    encoding: str = ""  # of position, with the choices that the papers tell variants by
    parameters: int | None = None
    config: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)  # what its card says of that
    number: int = 0  # among models that are compared: it looks the same in every figure

    @cached_property
    def performer(self) -> Performer:
        """The network, ready to compute."""
        return self.weights()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the weights out of what goes to another process, which reads them when it needs them."""
        return {name: value for name, value in vars(self).items() if name != "performer"}

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
        from tokenization.remi.chord_line import read_chords

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
