"""Generating music for a request: the takes that it results in, and continuations of a prompt.

All music is generated here: commands, page and evaluations use these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from musicgen.critic import EVERY, TOGETHER, Critic, NewBars
from musicgen.generation.batch import Network
from musicgen.generation.engine import Engine
from musicgen.generation.request import Choice, Job, Order, Progress, Request
from musicgen.generation.sampling import Kinds
from musicgen.pieces import Prompt, decode_partial, edit_of, in_keys_of, input_facts, program
from tokenization.analysis.chords import as_asked, like_given
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.playing import Playing
from tokenization.edit import Edit, NewMusic
from tokenization.formats import WithMidi, file_of, new_alone, write_score
from tokenization.grammar import Excluding, Grammar
from tokenization.language import Language
from tokenization.score import Score, Texts, excerpt

if TYPE_CHECKING:
    from musicgen.performer import Performer


@dataclass(frozen=True, kw_only=True, eq=False)
class Player:
    """A model with its language; its weights are read when they are first needed."""

    name: str  # in tables and files
    language: Language
    # These read the weights, as torch's module and to play (None: by way of torch), and the critic that chooses among
    # takes. They can be pickled for other processes.
    read_performer: Callable[[], Performer]
    read_network: Callable[[], Network] | None = None
    read_critic: Callable[[], Critic | None] | None = None
    trained_length: int = 0  # tokens; 0 for an untrained model
    sha256: str = ""  # of its weights; empty for an untrained model
    given: str = ""  # the name or path that was asked for

    @cached_property
    def performer(self) -> Performer:
        """The network as a torch module, with its weights."""
        return self.read_performer()

    @cached_property
    def network(self) -> Network:
        """The network that continues music, with its weights."""
        if self.read_network is not None:
            return self.read_network()
        from musicgen.eager import network_of

        return network_of(self.performer)

    @cached_property
    def critic(self) -> Critic | None:
        """What chooses among takes; None if the model has none."""
        return None if self.read_critic is None else self.read_critic()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but the weights; another process reads them when it needs them."""
        read = {"performer", "network", "critic"}
        return {name: value for name, value in vars(self).items() if name not in read}


@dataclass(frozen=True, kw_only=True)
class Take(WithMidi):
    """One variation: the whole piece, and the new notes by themselves."""

    number: int  # of the variation, from 0
    ids: np.ndarray  # tokens of the prompt and the continuation
    tokens: int  # the number of tokens of the continuation
    score: Score  # the whole piece
    continuation: Score  # the new notes alone
    provenance: dict[str, Any]  # how it was made
    edit: Edit | None = None  # how the original file is changed, if the piece was read from one

    @property
    def midi(self) -> bytes:
        """The whole piece as a MIDI file, with its provenance."""
        return self.file(".mid")[0]

    def file(self, suffix: str, title: str = "") -> tuple[bytes, str]:
        """Return the whole piece as a file, and a sentence on why it is not the edited original, if it is not."""
        return file_of(suffix, self.score, title, self.provenance, self.edit)

    @property
    def alone(self) -> tuple[bytes, str]:
        """The new notes by themselves as a MIDI file, at the places of the original; and a sentence as in `file`."""
        if self.edit is None:
            raise ValueError("this take was not written for a file")
        return new_alone(self.score, self.provenance, self.edit)

    def save(self, path: str | Path) -> str:
        """Write the whole piece as MIDI or MusicXML, by the suffix of the name.

        The new notes are written into the original file. If that is of another format, or damaged, the file is made
        from the notes alone, and the returned sentence says so.
        """
        return write_score(Path(path), self.score, self.provenance, edit=self.edit)


class Generation:
    """The generation for one request; the sequences so far are available at any time."""

    def __init__(self, model: Player, asked: Order) -> None:
        """Begin with what the request asks, before the model adds to it; its grammar has not taken the prompt."""
        sampling = asked.request.sampling
        if sampling.by_kind is None:
            sampling = replace(sampling, by_kind=model.language.draws_by_kind)
        self.model, self.request = model, replace(asked.request, sampling=sampling)
        self._asked = asked
        # Replaced by the job once the work begins.
        self.job = Progress(self.request.variations * self.each)

    @property
    def each(self) -> int:
        """The number of takes drawn for each that is returned."""
        return 1

    def order(self) -> Order:
        """Return the order for a process that has the model."""
        language, sampling = self.model.language, self.request.sampling
        kinds = Kinds(language.kinds(), language.plan_tokens()) if sampling.by_kind else None
        plan = {} if sampling.guidance == 1 else self.request.plan or {}
        requested = [name for name, value in plan.items() if value is not None]
        guiding = tuple(language.plan_tokens(requested))
        request = replace(self.request, variations=self.request.variations * self.each)
        asked, ids = self._asked, self._asked.ids.astype(np.int64)
        known = {"end": language.end, "kinds": kinds, "guiding": guiding}
        return replace(asked, request=request, ids=ids, **known).after_prompt()

    def check(self) -> None:
        """Raise the error that ended the work, if any."""
        self.job.check()

    def finish(self) -> Self:
        """Generate to the end; raises the error that ended the work, if any."""
        for _ in run_together([self]):
            pass
        self.check()
        return self

    def sequences(self) -> list[np.ndarray]:
        """Return the tokens of each variation so far, with those of the prompt."""
        ids = self._asked.ids.astype(np.uint16)
        return [np.concatenate([ids, np.array(row[:], np.uint16)]) for row in self.job.rows]


def run_together(works: Sequence[Generation]) -> Iterator[None]:
    """Run generations of one model in one batch, yielding after each step; `check` raises the error of a failed one."""
    engine = Engine(works[0].model.network)
    for work in works:
        work.job = job = Job(work.order())
        engine.add(job)
    while engine.work():
        yield


Hear: TypeAlias = Callable[[np.ndarray], Score]
"""Returns a sequence as a piece, as the language rounds it, by which the critic has learned. It can be pickled."""


def _most_convincing(
    rows: Sequence[Sequence[int]], bars: int, model: Player, ids: np.ndarray, hear: Hear, new: NewBars
) -> int:  # fmt: skip
    """Return the number of the best of several rows after the prompt `ids`, after so many complete bars."""
    assert model.critic is not None, "rows are chosen by a critic"
    so_far = new.so_far(bars)
    pieces = (hear(np.concatenate([ids, np.array(one)])) for one in rows)
    ranks = [model.critic.rank(piece, so_far) for piece in pieces]
    return ranks.index(min(ranks))


class MusicGeneration(Generation):
    """A generation whose sequences are decoded to takes."""

    compared: NewBars | None = None  # what the critic compares takes by; None if it cannot
    hear: Hear

    @property
    def each(self) -> int:
        draw = self.request.draw
        return draw if draw > 1 and self.compared and self.model.critic else 1

    def order(self) -> Order:
        order, choice = super().order(), None
        if self.each > 1 and self.compared:
            known = {"model": self.model, "ids": order.ids, "hear": self.hear, "new": self.compared}
            best = partial(_most_convincing, **known)
            choice = Choice(each=self.each, together=TOGETHER, every=EVERY, best=best)
        return replace(order, choice=choice)

    def takes(
        self, *, choosing: bool = True, settled: Collection[int] = (), most: int | None = None
    ) -> list[Take]:
        """Return the variations so far, or the first of them: of those drawn for each the best.

        It is the first unless `choosing`, and for those that are `settled`, by number.
        """
        every = self.sequences()
        heard = self.kept(every, choosing=choosing, settled=settled, most=most)
        about = {"best_of": self.each} if choosing and self.each > 1 else {}
        takes = (self._take(row, every[row], score) for row, score in heard.items())
        return [
            replace(
                take,
                number=number,
                score=take.score.remark(*self.remarks),
                provenance={**take.provenance, **({} if number in settled else about)},
            )
            for number, take in enumerate(takes)
        ]

    def kept(
        self,
        every: Sequence[np.ndarray],
        *,
        choosing: bool = True,
        settled: Collection[int] = (),
        most: int | None = None,
    ) -> dict[int, Score]:
        """Return the rows that are the takes, as `takes` chooses them of every sequence, and how they are heard."""
        each, rows = self.each, range(0, len(every), self.each)[:most]
        if not (choosing and each > 1 and self.compared and self.model.critic):
            return {row: self.hear(every[row]) for row in rows}
        heard = [self.hear(ids) for ids in every]
        best = self.model.critic.best(heard, self.compared, each, settled)
        return {row: heard[row] for row in best}

    def check(self) -> None:
        """Raise the error that ended the work, if any; music cut short by a bound is kept, with a remark."""
        if self.job.error is not None:
            raise self.job.error

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the takes, for the user."""
        bound = self.job.bound
        return () if bound is None else (f"the music is shorter than requested: {bound}",)

    def _take(self, number: int, ids: np.ndarray, score: Score) -> Take:
        """Return a sequence and its score as a take."""
        raise NotImplementedError

    def _played(self, playing: Playing | None, score: Score, where: NewMusic, number: int) -> Score:
        """Return a piece with its new notes played as the given ones and finished, unless they keep no promises."""
        if self.request.free:
            return score
        if playing is not None:
            score = playing.apply(score, where.is_new(score.notes), self.request.seed + number)
        return self.model.language.finished(score, where.is_new(score.notes))

    def _made(
        self, number: int, ids: np.ndarray, score: Score, new: Score, edit: Edit | None, about: Any
    ) -> Take:
        """Return a variation as a take; `about` says for its file what the music was made from."""
        plan = self.request.plan
        return Take(
            number=number,
            ids=ids,
            tokens=len(ids) - len(self._asked.ids),
            score=score,
            continuation=new,
            edit=edit,
            provenance={
                "model": self.model.name,
                "weights_sha256": self.model.sha256,
                "program": program(),
                "seed": self.request.seed,
                "variation": number,
                "sampling": asdict(self.request.sampling),
                **about,
                **({"plan": plan} if plan else {}),
            },
        )


def _heard(
    ids: np.ndarray, language: Language, bars: int | None, setting: Any, ends_from: int | None
) -> Score:
    """Return a continuation as a piece; if it ends, nothing new, from a tick on, rings past the last bar."""
    score = decode_partial(language, ids, bars, setting)
    if not bars or ends_from is None:
        return score
    notes, stop = score.notes, int(bar_lines(score, bars)[-1])
    return score.replace(notes=notes.ended_by(stop, notes.onset_ticks >= ends_from))


class Continuation(MusicGeneration):
    """The generation that continues a prompt."""

    def __init__(self, model: Player, prompt: Prompt, request: Request) -> None:
        """Check the request; raises ValueError for what the model's language cannot express."""
        self.prompt = prompt
        by_bars = request.tokens is None
        if by_bars and request.bars < 1:
            raise ValueError(f"bars is {request.bars}; it must be 1 or more")
        if request.ends and not by_bars:
            raise ValueError("an end needs a length in bars; give bars instead of tokens")
        ids, plan_tokens = prompt.ids, model.language.plan_tokens()
        if not request.planned:
            if request.plan or request.ends:
                raise ValueError(
                    "a plan or an end needs bars that state their plan; leave out planned=False"
                )
            ids = ids[~np.isin(ids, plan_tokens)]
        plan, sources = None, dict[int, int]()
        if request.plan:
            if not by_bars:
                raise ValueError("a plan needs a length in bars; give bars instead of tokens")
            plan = model.language.plan(request.plan, request.bars)
            back = model.language.bars_back(request.plan, request.bars)
            sources = {bar: bar - k for bar, k in enumerate(back, prompt.bars) if k}
        grammar = continuation_grammar(
            model.language,
            ids,
            prompt_bars=prompt.bars,
            ends=request.ends,
            chords=request.chords,
            plan=plan,
            free=request.free,
            chooses_metre=not prompt.bars and "metre" not in prompt.idea,
            **({"bars": request.bars} if by_bars else {}),
        )
        if not request.planned:
            grammar = Excluding(grammar, plan_tokens)
        stop = prompt.bars + request.bars
        if by_bars:
            self.compared = NewBars(begun=prompt.bars, stop=stop, ends=request.ends)
        before_bar = stop if by_bars and not request.ends else None
        asked = Order(
            request=request, ids=ids, grammar=grammar, before_bar=before_bar, sources=sources, varies=True,
            chords=tuple(model.language.chord_tokens()),
        )  # fmt: skip
        self.hear = partial(
            _heard, language=model.language, bars=stop if by_bars else None, setting=prompt.setting,
            ends_from=prompt.ticks if request.ends else None,
        )  # fmt: skip
        super().__init__(model, asked)

    def _ended(self, score: Score, played: Score) -> Score:
        """Return the played piece, in which a requested ending holds its last notes as long as written."""
        if not self.request.ends:
            return played
        last = played.notes.onset_ticks >= bar_lines(score, max(1, bar_count(score)))[-2]
        written, long = score.notes.duration_ticks, played.notes.duration_ticks
        return played.replace(
            notes=played.notes.replace(duration_ticks=np.where(last, written, long))
        )

    def _take(self, number: int, ids: np.ndarray, score: Score) -> Take:
        prompt, request = self.prompt, self.request
        where = NewMusic(start=prompt.ticks)
        score = self._ended(score, self._played(prompt.playing, score, where, number))
        given = [one for one in score.markers if one.onset_ticks < prompt.ticks]
        lines = bar_lines(score, bar_count(score))[prompt.bars :]
        new = as_asked(score.markers[len(given) :], lines, request.chords or [])
        score = score.replace(markers=(*like_given(given, prompt.score.markers), *new))
        score = in_keys_of(score, prompt.score, prompt.ticks)
        over_chords = bool(request.chords)
        new_music = {"start": prompt.ticks, "over_chords": over_chords}
        edit = edit_of(prompt.original, prompt.score, self.model.language, **new_music)
        about = {
            "prompt": prompt.name or None,
            "prompt_bars": [1, prompt.bars] if prompt.bars else None,
            **input_facts(prompt.ids, prompt.tracks),
            "length": request.length(),
            **({"idea": prompt.idea} if prompt.idea else {}),
            **({"chords": request.chords} if over_chords else {}),
        }
        new = excerpt(score, prompt.ticks).replace(texts=Texts(title=prompt.score.texts.title))
        return self._made(number, ids, score, new, edit, about)


MOST_BARS = 512  # for which chords and a plan are prepared if the length is given in tokens


def continuation_grammar(
    language: Language,
    prompt: np.ndarray,
    *,
    ends: bool = False,
    chords: list[list[str]] | None = None,
    bars: int = MOST_BARS,
    **known: Any,
) -> Grammar:
    """Return the grammar of sequences that begin with a prompt, before the prompt's first token.

    The keywords are those of `Language.grammar`. `Language.close` completes the sequences generated under it. If the
    music `ends` with the last of `bars`, the prompt has already begun the first of them.
    """
    if ends and "end" not in language.abilities:
        raise language.lacks("which cannot write endings")
    if chords is not None and "chords" not in language.abilities:
        raise language.lacks("which cannot follow given chords")
    grammar = language.grammar(prompt, bars=bars, ends=ends, chords=chords, **known)
    return grammar if grammar.counts_bars else Excluding(grammar, [language.end])
