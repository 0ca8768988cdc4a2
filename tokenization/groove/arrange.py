"""Any score as a trio of bass, drums and one more part on the 4/4 grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tokenization.analysis.grid import on_four_four, without_rest_in_front
from tokenization.analysis.parts import find_bass, find_drums, find_other, melodic, parts_of
from tokenization.analysis.pedal import sustained
from tokenization.analysis.tracks import find_tracks, label, note_counts
from tokenization.groove.grid import DEFAULT_BAND
from tokenization.groove.tokens import BASS, DRUMS, OTHER, PARTS, TRACKS
from tokenization.score import Score, Track
from tokenization.wording import Remark, listed

Choice = int | str | Iterable[int | str] | None
FIND = {DRUMS: find_drums, BASS: find_bass, OTHER: find_other}  # in this order
NO_TRIO = "a trio needs a bass, drums or another part, but all that plays is sound effects"


def arrange(score: Score, tracks: Sequence[Choice] | Mapping[str, Choice] | None = None) -> Score:
    """Bring any score to bass, drums and one more on the 4/4 grid; its remarks explain.

    `tracks` gives the three by index or name, several for one of them if need be, None for none;
    or as a mapping from bass, drums and other only some of them. What is not given is found.
    """
    laid = _on_grid(score)
    roles, remarks = _roles(laid, _given(laid, tracks))
    trio = _trio(laid.remark(*remarks), roles)
    if not len(trio.notes):
        raise ValueError(
            NO_TRIO
            if tracks is None
            else "the chosen tracks hold no notes; choose others, or leave the choice open"
        )
    return without_rest_in_front(trio)


def trios(score: Score) -> list[Score]:
    """Return bass and drums with each of the other parts in turn, for a data set to draw from."""
    laid = without_rest_in_front(_on_grid(score))
    roles, _ = _roles(laid, {})
    taken = {*roles[BASS], *roles[DRUMS]}
    others = [p.tracks for p in melodic(parts_of(laid)) if not taken.intersection(p.tracks)]
    if not (taken or others):
        raise ValueError(NO_TRIO)
    return [_trio(laid, {**roles, OTHER: list(other)}) for other in others or [()]]


def _on_grid(score: Score) -> Score:
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    return on_four_four(sustained(score))


def _given(
    score: Score, tracks: Sequence[Choice] | Mapping[str, Choice] | None
) -> dict[int, list[int]]:
    """Return the tracks of the roles that a person has cast."""
    if tracks is None:
        return {}
    if not isinstance(tracks, Mapping):
        if isinstance(tracks, str) or len(tracks) != len(TRACKS):
            raise ValueError(
                f"a trio takes three tracks, for {listed(PARTS)}, each by index or name or None, "
                f"but got {tracks!r}"
            )
        tracks = dict(zip(PARTS, tracks, strict=True))
    if unknown := [name for name in tracks if name not in PARTS]:
        raise ValueError(f"a trio has {listed(PARTS)}, but no {listed(unknown)}")
    given = {PARTS.index(name): _tracks(score, choice) for name, choice in tracks.items()}
    chosen = [index for indices in given.values() for index in indices]
    if twice := {index for index in chosen if chosen.count(index) > 1}:
        raise ValueError(
            f"{listed([label(score, index) for index in sorted(twice)])} "
            "can play only one of bass, drums and other"
        )
    return given


def _tracks(score: Score, choice: Choice) -> list[int]:
    if choice is None:
        return []
    wanted = [choice] if isinstance(choice, int | str) else choice
    return sorted({index for name in wanted for index in find_tracks(score, name)})


def _roles(score: Score, given: dict[int, list[int]]) -> tuple[dict[int, list[int]], list[str]]:
    """Return the tracks of each role, and sentences on who plays what and who does not."""
    taken = {index for tracks in given.values() for index in tracks}
    parts = [part for part in parts_of(score) if not taken.intersection(part.tracks)]
    roles, reasons = dict(given), dict.fromkeys(given, "as chosen")
    for role, find in FIND.items():
        if role not in given:
            found, reasons[role] = find(parts)
            roles[role] = [index for part in found for index in part.tracks]
            parts = [part for part in parts if part not in found]
    remarks = [_sentence(score, role, roles[role], reasons[role]) for role in (BASS, DRUMS, OTHER)]
    cast = {index for tracks in roles.values() for index in tracks}
    left_out = [i for i, notes in enumerate(note_counts(score)) if notes and i not in cast]
    if left_out:
        message = f"Left out: {listed([label(score, index) for index in left_out])}."
        remarks.append(Remark(message, "tracks"))
    return roles, remarks


def _sentence(score: Score, role: int, tracks: list[int], found_by: str) -> str:
    if not tracks:
        reason = "as chosen" if found_by == "as chosen" else "none was found"
        return Remark(f"{TRACKS[role]}: silent ({reason}).", "tracks")
    return f"{TRACKS[role]}: {listed([label(score, index) for index in tracks])} ({found_by})."


def _trio(score: Score, roles: dict[int, list[int]]) -> Score:
    """Return the score of the three roles; each has the program of its busiest track."""
    role_of = np.full(len(score.tracks), -1)
    programs = list(DEFAULT_BAND.programs)
    counts = note_counts(score)
    for role, tracks in roles.items():
        role_of[tracks] = role
        if tracks:
            busiest = score.tracks[max(tracks, key=lambda index: counts[index])]
            # An instrument of the drum channel is none elsewhere, nor the other way round.
            if busiest.is_drum == (role == DRUMS):
                programs[role] = busiest.program
    role = role_of[score.notes.track]
    notes = score.notes.replace(track=role)[role >= 0]
    return score.replace(
        notes=notes.sorted(),
        tracks=tuple(
            Track(name, programs[index], index == DRUMS) for index, name in enumerate(TRACKS)
        ),
    )
