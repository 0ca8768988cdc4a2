"""Experiments on pieces of a prepared data set: selection of the pieces, one job per model and piece."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np

from evaluation.metrics.estimates import bounds_of, estimate, grouped, means
from evaluation.study.experiments import (
    Experiment,
    job_of,
    models_for_language,
    probed_length,
)
from musicgen.continuation import Continuation, Generation
from musicgen.generation.request import Order, Request
from musicgen.generation.sampling import MUSICAL
from musicgen.pieces import Piece, piece_of_ids
from musicgen.playable import Playable, find, load
from tokenization.language import Goal, Language
from tokenization.prepared import Prepared
from tokenization.score import Score
from tokenization.wording import counted

Rows = list[dict[str, Any]]
FAR = 4.0  # how far pieces are read, in trained lengths
END = "end: "  # prefix of the measures that are signs of an ending


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The selection of pieces from a prepared data set, with seed and device of the measurements."""

    data: str  # its folder
    pieces: int  # at most
    split: str
    seed: int
    device: str
    skip: int = 0  # pieces to skip at the start of the order in which they are selected

    @property
    def place(self) -> str:
        """A description of the selection for messages."""
        return f"its {self.split} split" + (f" after the first {self.skip}" if self.skip else "")

    def facts(self, pieces: int) -> dict[str, Any]:
        """Return facts about the pieces for the results."""
        return {
            "data": str(self.prepared.folder),
            "checksum": self.prepared.meta["checksum"],
            "split": self.split,
            "skip": self.skip,
            "pieces": pieces,
        }

    def check_split(self) -> None:
        """Raise ValueError if the split has no piece at all."""
        if not len(self.prepared.rows(self.split)):
            raise ValueError(
                f"{self.data} has no piece in its {self.split} split; try another --split"
            )

    @cached_property
    def prepared(self) -> Prepared:
        """The data set, verified, because results are stored under its checksum."""
        prepared = Prepared.open(self.data)
        prepared.verify()
        return prepared


def held_out(
    playables: Sequence[Playable], choice: Choice, length: int | None
) -> tuple[list[Playable], list[int], dict[str, Any]]:
    """Return the models of the data set's language, the rows of the pieces for them, and facts about both.

    There is one row per file, and pieces that fill the length come first. The default length is 4 times the longest
    trained length.
    """
    prepared = choice.prepared
    choice.check_split()
    able, left_out = models_for_language(playables, prepared.language.name, choice.data)
    length = length or int(FAR * max(map(probed_length, able)))
    rows = prepared.rows(choice.split)
    files = prepared.pieces.file[rows]
    random = np.random.default_rng(choice.seed)
    drawn = np.array([random.choice(rows[files == file]) for file in np.unique(files)], dtype=int)
    fills = prepared.pieces.length[drawn] > length
    order = drawn[np.argsort(~fills, kind="stable")]
    chosen = order[choice.skip :][: choice.pieces].tolist()
    return able, chosen, {**choice.facts(len(chosen)), "length": length, "left_out": left_out}


Measure = Generator[Sequence[Generation], None, Rows]
"""A measurement that yields the generations it needs, and continues once they are finished."""


class TokenCompletion(Generation):
    """The completion of a piece given as tokens alone."""

    def __init__(self, model: Playable, goal: Goal, request: Request) -> None:
        """Take a goal for the piece in the model's language."""
        asked = Order(
            request=request, ids=goal.prompt, grammar=goal.grammar, sources=goal.sources,
            elsewhere=tuple(goal.elsewhere.tolist()),
        )  # fmt: skip
        super().__init__(model, asked)
        self.goal = goal

    def whole(self) -> np.ndarray:
        """Return the tokens of the whole piece; raises the error that ended the work, if any."""
        self.check()
        return self.goal.whole(self.sequences()[0])


def draw_pieces(
    choice: Choice, random: np.random.Generator, *, fewest_bars: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of at least `fewest_bars` bars, one per file, and an order of them that alternates styles: (N,) each.

    Pieces are skipped before their length is checked, so that the same ones are skipped in every experiment.
    """
    prepared, files = choice.prepared, choice.prepared.pieces.file
    rows = random.permutation(prepared.rows(choice.split))
    first, order = _alternating(prepared, rows)
    rows = rows[~np.isin(files[rows], files[first[order[: choice.skip]]])]
    rows = np.array([row for row in rows if len(prepared.bars(int(row))) >= fewest_bars], dtype=int)
    return _alternating(prepared, rows)


def style_of(prepared: Prepared, row: int) -> int | str:
    """Return the style of a piece; a piece without one is a style of its own."""
    style = int(prepared.pieces.style[row])
    return style if style >= 0 else prepared.name(row)


def _alternating(prepared: Prepared, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each file, and an order of these rows that alternates styles."""
    _, first = np.unique(prepared.pieces.file[rows], return_index=True)
    rows = rows[np.sort(first)]
    styles = prepared.pieces.style[rows]
    turn = np.array([(styles[:i] == style).sum() for i, style in enumerate(styles)], dtype=int)
    return rows, np.argsort(turn, kind="stable")


def piece_experiment(
    name: str,
    measure: Callable[..., Measure],
    playables: Sequence[Playable],
    choice: Choice,
    *,
    fewest_bars: int = 1,
    language: str = "",
    with_others: bool = False,
    **options: Any,
) -> Experiment:
    """Return the experiment that measures models of a language, by default the data's, on pieces of at least some bars.

    `with_others`: a measurement also gets another piece of the style (`same`) and one of another style (`other`), if
    there are any.
    """
    prepared, random = choice.prepared, np.random.default_rng(choice.seed)
    able, left_out = models_for_language(playables, language or prepared.language.name, name)
    choice.check_split()
    rows, places = draw_pieces(choice, random, fewest_bars=fewest_bars)
    others = [one.language for one in able if one.language.name != prepared.language.name]
    # A model of another language may count bars differently.
    long_enough = (
        place
        for place in places.tolist()
        if all(held_out_piece(choice.data, int(rows[place]), x).bars >= fewest_bars for x in others)
    )
    pieces: Rows = []
    styles = prepared.pieces.style[rows]
    for place in islice(long_enough, choice.pieces):
        pieces.append({"row": int(rows[place])})
        if with_others:
            same = np.flatnonzero((styles == styles[place]) & (np.arange(len(rows)) != place))
            other = np.flatnonzero(styles != styles[place])
            for side, found in (("same", same), ("other", other)):
                pieces[-1][side] = int(rows[random.choice(found)]) if len(found) else None
    if not pieces:
        raise ValueError(
            f"{choice.data} has no piece of {counted(fewest_bars, 'bar')} in {choice.place}; ask for fewer bars, or "
            "another --split"
        )
    jobs = [
        job_of(playable, measure, choice.device, prepared, **options, seed=choice.seed, **piece)
        for playable in able
        for piece in pieces
    ]

    def compose(playable: Playable, results: list[Rows]) -> Rows:
        measured = [row for result in results for row in result]
        return [{"model": playable.name, "table": estimates(measured, name), "rows": measured}]

    facts = {**choice.facts(len(pieces)), "left_out": left_out, **options}
    return Experiment(jobs=jobs, compose=compose, prepared=prepared, facts=facts)


def estimates(rows: Rows, kind: str = "") -> Rows:
    """Return one row per measure of a kind of experiment, with an estimate for each side of the comparison.

    Rows that name a style count once per style, by their mean; others once per piece.
    """
    table = []
    for (measure,), own in grouped((row for row in rows if "measure" in row), "measure").items():
        sides = [key for key in own[0] if key not in ("measure", "piece", "style")]
        styled = "style" in own[0]
        values = {
            side: means(own, "style", side) if styled else [row[side] for row in own]
            for side in sides
        }
        shares = measure.startswith(END) or measure in (
            "collapses",
            "busiest",
        )  # 0 or 1 for each piece
        row = {
            side: estimate(found, shares=shares, bounds=bounds_of(kind, measure))
            for side, found in values.items()
        }
        table.append({"measure": measure, "pieces": len(own), **row, **_above(values)})
    return table


def _above(values: Mapping[str, list[float | None]]) -> dict[str, int]:
    """Return the number of styles where generated music exceeds another piece of the style, and of those compared."""
    if "same" not in values:
        return {}
    pairs = zip(values["written"], values["same"], strict=True)
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    return {"above_same": sum(a > b for a, b in both), "of": len(both)}


def model_of(name: str, device: str) -> Playable:
    """Return the model of a job; jobs that run together share it."""
    return _load(name, device, find(name, device).sha256)


@lru_cache(maxsize=1)
def _load(name: str, device: str, sha256: str | None) -> Playable:
    """Load a model; the hash makes the cache notice when its folder gets other weights."""
    return load(name, device)


def held_out_piece(data: str, row: int, language: Language) -> Piece:
    """Return a piece of a prepared data set, encoded in the language of a model."""
    prepared = Prepared.open(data)
    ids = np.asarray(prepared.ids(row))
    if language.name != prepared.language.name:
        ids = language.encode(language.arrange(prepared.language.decode(ids))).ids
    return piece_of_ids(language, ids, prepared.name(row))


def continued(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    prompt_bars: int,
    bars: int,
    recall: float = MUSICAL.recall,
    planned: bool = True,
    takes: int = 1,
    draw: int = 1,
    seed: int,
) -> tuple[Piece, Continuation]:
    """Return a piece, and the continuation of its first bars, which the caller has to run."""
    loaded = model_of(model, device)
    piece = held_out_piece(data, row, loaded.language)
    sampling = replace(MUSICAL, recall=recall)
    how = {"seed": seed, "sampling": sampling, "planned": planned}
    request = Request(bars=bars, variations=takes, draw=draw, **how)
    return piece, Continuation(loaded, piece.prompt(prompt_bars), request)


def score_of(work: Continuation) -> Score:
    """Return the score of a finished continuation with its prompt; raises the error of a failed one."""
    work.check()
    return work.takes()[0].score
