"""Rows of several requests that draw their next tokens together: sampled alike, and told what may come by one grammar.

For a few rows a grammar costs by the call and hardly by the row. So those of requests that differ in their rows alone
are joined for as long as the same requests take their steps together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from musicgen.generation.job import Job, RowGroup, with_rows
from musicgen.generation.kinds import Kinds
from musicgen.generation.sampling import draw, probabilities

Ended = list[tuple[RowGroup, np.ndarray]]
"""Groups in which rows have ended, with which of their rows go on: (rows,) bool."""
Failed = list[tuple[Job, Exception]]
"""Jobs that go no further, and why: those of all rows that draw together, if that fails."""


class JointDraw:
    """Groups whose rows draw together; B rows in all, V tokens."""

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        first, *others = groups
        self._groups, self._sampling = groups, first.job.request.sampling
        kinds = first.job.request.kinds
        self._kinds = None if kinds is None else Kinds(kinds)
        self._grammar = first.grammar
        if others:
            self._grammar = first.grammar.joined([group.grammar for group in others])
        self._allowed = np.empty(0, bool)  # (B, V)

    @property
    def jobs(self) -> set[Job]:
        """Whose rows these are."""
        return {group.job for group in self._groups}

    def look(self) -> Ended:
        """Ask what may come; a row for which nothing may has ended."""
        self._allowed = self._grammar.allowed()
        possible = np.asarray(self._allowed.any(axis=1))
        if possible.all():
            return []
        return [(group, possible[rows]) for group, rows in with_rows(self._groups)]

    def take(self) -> Ended:
        """Draw a token a row, and let the groups take theirs."""
        scores = np.concatenate([
            group.biased_scores(self._allowed[rows]) for group, rows in with_rows(self._groups)
        ])  # fmt: skip
        uniforms = np.array([x for group in self._groups for x in group.uniforms()])
        chances = probabilities(scores, self._sampling, self._allowed, self._kinds)
        for group, rows in with_rows(self._groups):
            group.recall(chances[rows], self._allowed[rows])
        tokens = self._grammar.instead(draw(chances, uniforms))
        self._grammar.advance(tokens)
        begun, ended = self._grammar.bars, []
        for group, rows in with_rows(self._groups):
            goes_on = group.take(tokens[rows], begun[rows])
            if not goes_on.all():
                ended.append((group, goes_on))
        return ended

    def part(self) -> None:
        """Give each group its own rows of the grammar back."""
        if len(self._groups) > 1:
            for group, rows in with_rows(self._groups):
                group.grammar = self._grammar.select(np.arange(rows.start, rows.stop))


class Draws:
    """Groups in as few parts as can draw together, for as long as they are the same."""

    def __init__(self) -> None:
        self._joint: list[JointDraw] = []

    def look(self, groups: Iterable[RowGroup]) -> tuple[Ended, Failed]:
        """Ask what may come."""
        return self._each(groups, JointDraw.look)

    def take(self, groups: Iterable[RowGroup]) -> tuple[Ended, Failed]:
        """Draw a token a row, and let the groups take theirs."""
        return self._each(groups, JointDraw.take)

    def part(self) -> None:
        """Give each group its own rows back; to be done before any of them leaves, or another one comes."""
        for joint in self._joint:
            joint.part()
        self._joint = []

    def _each(
        self, groups: Iterable[RowGroup], act: Callable[[JointDraw], Ended]
    ) -> tuple[Ended, Failed]:
        self._joint = self._joint or _joint(group for group in groups if len(group))
        ended: Ended = []
        failed: Failed = []
        for joint in self._joint:
            try:
                ended += act(joint)
            except Exception as error:
                failed += [(job, error) for job in joint.jobs]
        return ended, failed


def _joint(groups: Iterable[RowGroup]) -> list[JointDraw]:
    alike: dict[Any, list[RowGroup]] = defaultdict(list)
    for group in groups:
        alike[group.job.request.sampling, group.grammar.shared].append(group)
    return [JointDraw(part) for part in alike.values()]
