"""Continuing a prompt: the request, its generation, and the variations that result.

The one way to generate music: commands, page, evaluations and the samples of a training run all come through here; the
groove experiment, which counts tokens and compares them, through `Generation` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from musicgen.common.processes import program
from musicgen.generation.request import Order, Progress, Request, order
from musicgen.generation.sampling import Kinds
from musicgen.pieces import Prompt, decode_begun, edit_of, heard_facts
from tokenization.analysis.chords import guessed_before, known_from
from tokenization.edit import Edit
from tokenization.formats import WithMidi, file_of, write_score
from tokenization.grammar import Grammar
from tokenization.language import Language
from tokenization.score import Score, excerpt

if TYPE_CHECKING:
    from musicgen.performer import Performer


@dataclass(frozen=True, kw_only=True, eq=False)
class Player:
    """A model that writes music in its language, and its weights when they are needed."""

    name: str  # by which tables and files call it
    language: Language
    weights: Callable[[], Performer]  # reads them; can be pickled, for other processes to read them
    trained_length: int = 0  # tokens; 0 of an untrained one
    sha256: str = ""  # of its weights; empty for an untrained one
    longest_ticks: list[int] | None = None  # of notes in its training data, if it keeps to them
    given: str = ""  # the name or path by which it was found

    @cached_property
    def performer(self) -> Performer:
        """The network, ready to compute."""
        return self.weights()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the weights out of what goes to another process, which reads them when it needs them."""
        return {name: value for name, value in vars(self).items() if name != "performer"}


@dataclass(frozen=True, kw_only=True)
class Take(WithMidi):
    """One variation: the whole piece and, by itself, what is new."""

    number: int
    ids: np.ndarray  # of prompt and continuation
    tokens: int  # of the continuation
    score: Score  # the whole piece
    continuation: Score  # what is new in it
    provenance: dict[str, Any]  # how it was made
    edit: Edit | None = None  # of the file that it was written to, which is kept

    @property
    def midi(self) -> bytes:
        """The whole piece as a MIDI file that says how it was made."""
        return self.file(".mid")[0]

    def file(self, suffix: str, title: str = "") -> tuple[bytes, str]:
        """Return the whole piece as a file, and why the file that it was written to is not kept, if it is not."""
        return file_of(suffix, self.score, title, self.provenance, self.edit)

    def save(self, path: str | Path) -> str:
        """Write the whole piece, as MIDI or MusicXML, by how the name ends: into the file that it was written to.

        A file of the other format, or one that is damaged, is written from the notes; what is returned says so.
        """
        return write_score(Path(path), self.score, self.provenance, edit=self.edit)


class Generation:
    """Music being drawn for one request: iterate to do the work; there are sequences at any time."""

    def __init__(
        self, model: Player, ids: np.ndarray, grammar: Grammar, request: Request, **more: Any
    ) -> None:
        """Go on from ids by a grammar, until the end token or what else is to stop it; `more` is the Order's."""
        sampling = request.sampling
        if sampling.by_kind is None:
            sampling = replace(sampling, by_kind=model.language.draws_by_kind)
        self.model, self.request = model, replace(request, sampling=sampling)
        self._ids, self._grammar, self._more = ids, grammar, more
        self.job = Progress(request.variations)  # what has come so far, of a job that is at work

    def order(self) -> Order:
        """Return what is to be written, for a process that has the model."""
        language = self.model.language
        by_kind = self.request.sampling.by_kind
        kinds = Kinds(language.kinds(), language.plan_tokens()) if by_kind else None
        ids = self._ids.astype(np.int64)
        asked = [name for name, value in (self.request.plan or {}).items() if value is not None]
        if self.request.sampling.guidance == 1:
            asked = []
        guiding = tuple(language.plan_tokens(asked))
        more = {"end": language.end, "kinds": kinds, "guiding": guiding, **self._more}
        return order(self.request, ids, self._grammar, valid=True, **more)

    def __iter__(self) -> Iterator[int]:
        """Generate; yields the number of steps so far. To stop early, stop iterating."""
        for _ in together([self]):
            yield self.job.steps
        self.check()

    def check(self) -> None:
        """Raise what ended the work, if that was an error."""
        self.job.check()

    def finish(self) -> Self:
        """Generate to the end."""
        for _ in self:
            pass
        return self

    def sequences(self) -> list[np.ndarray]:
        """Return the variations as far as they have come, each with what it goes on from at its beginning."""
        ids = self._ids.astype(np.uint16)
        return [np.concatenate([ids, np.array(row[:], np.uint16)]) for row in self.job.rows]


def together(works: Sequence[Generation]) -> Iterator[None]:
    """Do works of one model in one batch; yields now and then. What ended one of them, its `check` raises."""
    from musicgen.generation.engine import Engine, one_thread  # torch comes with it
    from musicgen.generation.job import Job

    model = works[0].model.performer
    engine = Engine(model)
    for work in works:
        try:
            job = Job(work.model.performer, work.order())
            work.job = job
            engine.add(job)
        except ValueError as error:
            work.job.error = error
            work.job.ended.set()
    with one_thread():
        while engine.work():
            yield
    yield  # also where none could begin


class MusicGeneration(Generation):
    """A generation whose sequences are music."""

    def takes(self) -> list[Take]:
        """Return the variations as far as they have come."""
        takes = [self._take(number, ids) for number, ids in enumerate(self.sequences())]
        return [replace(take, score=take.score.remark(*self.remarks)) for take in takes]

    def check(self) -> None:
        """Raise what ended the work, if that was an error; music that met a bound stands, and `remarks` say so."""
        if self.job.error is not None:
            raise self.job.error

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the takes."""
        bound = self.job.bound
        return () if bound is None else (f"the music ends before its length: {bound}",)

    def _take(self, number: int, ids: np.ndarray) -> Take:
        raise NotImplementedError

    def _provenance(self, number: int) -> dict[str, Any]:
        """Return what a variation's file says of how it was made."""
        return {
            "model": self.model.name,
            "weights_sha256": self.model.sha256,
            "program": program(),
            "seed": self.request.seed,
            "variation": number,
            "sampling": asdict(self.request.sampling),
        }


class Continuation(MusicGeneration):
    """A prompt that goes on."""

    def __init__(self, model: Player, prompt: Prompt, request: Request) -> None:
        """Refuse at once what the model's language has no words for, and what is no length."""
        self.prompt = prompt
        by_bars = request.tokens is None
        if by_bars and request.bars < 1:
            raise ValueError(f"bars is {request.bars}; to continue at all it is 1 or more")
        if request.ends and not by_bars:
            raise ValueError("music ends with a bar: to have it end, give bars and not tokens")
        ids, said = prompt.ids, model.language.plan_tokens()
        if not request.planned:
            if request.plan or request.ends:
                raise ValueError("a plan, and an end, are asked of bars that state a plan")
            ids = ids[~np.isin(ids, said)]
        closed = model.language.close(ids, prompt.bars)  # what sounds at its end, too
        plan, sources = None, dict[int, int]()
        if request.plan:
            if not by_bars:
                raise ValueError("a plan is for bars: give the length in bars, not in tokens")
            plan = model.language.plan(request.plan, request.bars)
            back = model.language.bars_back(request.plan, request.bars)
            sources = {bar: bar - far for bar, far in enumerate(back, prompt.bars) if far}
        grammar = continuing(
            model.language,
            ids,
            prompt_bars=prompt.bars,
            may_end=request.may_end,
            ends=request.ends,
            chords=request.chords,
            longest_ticks=longest_ticks(model, closed, prompt.score),
            plan=plan,
            **({"bars": request.bars} if by_bars else {}),
        )
        before_bar = prompt.bars + request.bars if by_bars and not request.ends else None
        super().__init__(
            model,
            ids,
            grammar if request.planned else Without(grammar, said),
            request,
            sources=sources,
            before_bar=before_bar,
        )

    def _take(self, number: int, ids: np.ndarray) -> Take:
        prompt, request = self.prompt, self.request
        bars = None if request.tokens else prompt.bars + request.bars
        score = decode_begun(self.model.language, ids, bars, prompt.setting)
        score = guessed_before(score, min(prompt.ticks, known_from(prompt.score.markers)))
        return Take(
            number=number,
            ids=ids,
            tokens=len(ids) - len(prompt.ids),
            score=score,
            continuation=excerpt(score, prompt.ticks),
            edit=edit_of(
                prompt.original,
                prompt.score,
                self.model.language,
                start=prompt.ticks,
                over_chords=bool(request.chords),
            ),
            provenance={
                **self._provenance(number),
                "prompt": prompt.name or None,
                "prompt_bars": [1, prompt.bars] if prompt.bars else None,
                **heard_facts(prompt.ids, prompt.tracks),
                "length": request.length(),
                **({"idea": prompt.idea} if prompt.idea else {}),
                **({"chords": request.chords} if request.chords else {}),
                **({"plan": request.plan} if request.plan else {}),
            },
        )


def longest_ticks(model: Player, ids: np.ndarray, score: Score) -> list[int] | None:
    """Return how long notes of each track may last: as in the training data, and after a piece, closed, as in that.

    After staccato a model that forgets one note-off would hold the note for bars. A beat is always free.
    """
    known = model.longest_ticks
    if known is None or not len(score.notes):
        return known
    lengths, beat = model.language.longest([ids]) or known, score.ticks_per_beat
    return [min(most, max(here, beat)) for most, here in zip(known, lengths, strict=True)]


class Without(Grammar):
    """Another grammar without some tokens, such as the end where the length was asked for."""

    def __init__(self, grammar: Grammar, tokens: Sequence[int]) -> None:
        self._grammar, self._tokens = grammar, tuple(tokens)

    @property
    def bars(self) -> np.ndarray:
        return self._grammar.bars

    def allowed(self) -> np.ndarray:
        mask = self._grammar.allowed().copy()
        mask[:, list(self._tokens)] = False
        return mask

    def instead(self, tokens: np.ndarray) -> np.ndarray:
        return self._grammar.instead(tokens)

    def advance(self, tokens: np.ndarray) -> None:
        self._grammar.advance(tokens)

    def take(self, ids: np.ndarray) -> None:
        self._grammar.take(ids)


MOST_BARS = 512  # that are scripted where the length is given in tokens


def continuing(
    language: Language,
    prompt: np.ndarray,
    *,
    may_end: bool = False,
    ends: bool = False,
    chords: list[list[str]] | None = None,
    bars: int = MOST_BARS,
    **known: Any,
) -> Grammar:
    """Return the grammar of sequences that begin with a prompt; it stands before the prompt's first token.

    What is asked of the new bars, and what else is `known`, is that of `Language.grammar`. `Language.close` completes
    what is generated so. Where the music `ends`, with the last of so many bars, the prompt has begun the first of them.
    """
    if ends and "end" not in language.abilities:
        raise language.lacks("in which an end cannot be asked for")
    if chords is not None and "chords" not in language.abilities:
        raise language.lacks("which names no chords")
    grammar = language.grammar(prompt, bars=bars, ends=ends, chords=chords, **known)
    return grammar if may_end or grammar.counts_bars else Without(grammar, [language.end])
