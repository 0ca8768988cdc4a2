"""Any score on the beat grid of a language: its own bars or 4/4, with a remark on what that took."""

from __future__ import annotations

import numpy as np

from tokenization.analysis.beats import BEATS_PER_BAR, remap
from tokenization.analysis.estimate import estimated, has_beats
from tokenization.analysis.metres import bars_of, made_of, usable_signatures
from tokenization.score import Marker, Meters, Score, steps_of
from tokenization.wording import Remark, listed

FINE_TICKS_PER_BEAT = 480
FOUR_FOUR = Meters(np.array([0]), np.array([BEATS_PER_BAR]), np.array([4]))


def on_four_four(score: Score) -> Score:
    """Lay any score on the 4/4 grid, beat by beat.

    Where its notes do not lie on its own beats, the beats are estimated, unless they are known to
    be right, however loosely the notes are played. Its meter may be any: a
    quarter note stays a quarter note, in every meter, and no note moves against another: bars
    are laid end to end. Only the rest in front is chosen: so that as many notes as possible, of
    those in bars of four beats, keep their bar lines. An upbeat becomes a whole bar that way.
    """
    score = score if score.beats_known else _with_beats(score)
    start, length, name = _sections(score)
    bar = BEATS_PER_BAR * score.ticks_per_beat
    before = np.searchsorted(np.sort(score.notes.onset_ticks), start)
    notes = np.diff(np.append(before, len(score.notes)))
    phases, section = np.unique(start % bar, return_inverse=True)
    votes = np.bincount(section, weights=notes * (length == bar), minlength=len(phases))
    kept = int(votes.max())
    shift = -int(phases[votes.argmax()]) % bar if kept else 0
    result = later(score, shift).replace(meters=FOUR_FOUR)
    return result.remark(*_remarks(name, shift / score.ticks_per_beat, kept, len(score.notes)))


def on_own_bars(score: Score) -> Score:
    """Lay any score on the bars of its own metres.

    Where its notes do not lie on its own beats, these are estimated, as for `on_four_four`, in bars
    of four. A first bar that is shorter than those after it is an upbeat, and becomes a whole one,
    unless two metres come bar by bar in turn, as 3/8 and 2/4 do where they stand for 7/8. A bar that
    no metre has is laid as several that make it up, and said.
    """
    score = score if score.beats_known else _with_beats(score)
    start, length, names = _sections(score)
    meters = Meters(start, *np.array([name.split("/") for name in names], dtype=np.int64).T)
    remarks = _remarks_on_other_bars(names)
    in_turn = names[2:3] == names[:1] and (np.diff(start[:3]) == length[:2]).all()
    if len(start) > 1 and start[1] < length[1] and start[1] <= length[0] and not in_turn:
        rest = round(length[1] - start[1])
        score = later(score, rest)
        meters = meters[1:].replace(onset_ticks=np.append(0, meters.onset_ticks[2:] + rest))
        remarks.append(_upbeat(rest / score.ticks_per_beat))
    return score.replace(meters=meters).remark(*remarks)


def _remarks_on_other_bars(names: list[str]) -> list[str]:
    """Say which bars are written as others."""
    remarks = []
    for name in dict.fromkeys(names):
        numerator, denominator = map(int, name.split("/"))
        parts = made_of(numerator, denominator)
        if parts != (name,):
            message = f"Bars of {name} are written as bars of {listed(parts)}."
            remarks.append(Remark(message, "metre"))
    return remarks


def without_rest_in_front(score: Score) -> Score:
    """Return the score from the bar that its first note falls into, or lies just before."""
    first = steps_of(score.notes.onset_ticks.min(), score.ticks_per_beat, 4)
    front = bars_of(score.meters, score.ticks_per_beat, int(first))
    bars, rest = len(front) - 1, int(front.start[-1]) * score.ticks_per_beat // 4
    if not bars:
        return score

    def earlier(ticks: np.ndarray) -> np.ndarray:
        return np.maximum(ticks - rest, 0)

    meters = score.meters
    past = np.flatnonzero(meters.onset_ticks <= rest)[:-1]  # the last of these is in force there
    meters = meters[np.setdiff1d(np.arange(len(meters)), past)]
    score = score.replace(
        notes=score.notes.replace(onset_ticks=earlier(score.notes.onset_ticks)),
        tempos=score.tempos.replace(onset_ticks=earlier(score.tempos.onset_ticks)),
        meters=meters.replace(onset_ticks=earlier(meters.onset_ticks)),
        markers=tuple(Marker(max(m.onset_ticks - rest, 0), m.text) for m in score.markers),
    )
    count = "1 bar of rest is" if bars == 1 else f"{bars} bars of rest are"
    return score.remark(f"{count} left out at the start.")


def _with_beats(score: Score) -> Score:
    if has_beats(score):
        return score
    beat_map = estimated(score)
    tempo = np.median(beat_map.beats_per_minute)
    message = (
        "The notes do not lie on the file's beats, as in a recording; "
        f"the beats are estimated: about {tempo:.0f} a minute."
    )
    return remap(score, beat_map, FINE_TICKS_PER_BEAT).remark(Remark(message, "beats"))


def _sections(score: Score) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return where meters start, how long their bars are (ticks), and what they are called."""
    usable = usable_signatures(score.meters)
    at, numerator, denominator = (np.array(column) for column in zip(*usable, strict=True))
    last = np.append(np.diff(at) > 0, True)
    length = numerator * 4 * score.ticks_per_beat / denominator
    names = [f"{n}/{d}" for (_, n, d), keep in zip(usable, last, strict=True) if keep]
    return at[last], length[last], names


def _remarks(names: list[str], rest_beats: float, kept: int, notes: int) -> list[str]:
    meters = list(dict.fromkeys(names))
    remarks = []
    if len(meters) > 1 and kept < notes:
        shown = ", ".join(meters[:4]) + (", …" if len(meters) > 4 else "")
        message = (
            f"The meter changes ({shown}); all is laid on the 4/4 grid beat by beat, "
            f"and {kept} of {notes} notes keep their bar lines."
        )
        remarks.append(Remark(message, "metre"))
    elif meters[0] not in ("4/4", "2/2", "8/8") and kept < notes:
        message = (
            f"The meter is {meters[0]}; it is laid on the 4/4 grid beat by beat, "
            "so bar lines fall elsewhere than in the file."
        )
        remarks.append(Remark(message, "metre"))
    if rest_beats:
        remarks.append(_upbeat(rest_beats))
    return remarks


def _upbeat(rest_beats: float) -> str:
    message = f"The first bar is an upbeat and starts with {rest_beats:g} beats of rest."
    return Remark(message, "upbeat")


def later(score: Score, ticks: int) -> Score:
    """Return the score later by some ticks; its metres stay."""
    if not ticks:
        return score
    tempos = score.tempos.onset_ticks
    tempos = score.tempos.replace(onset_ticks=np.where(tempos > 0, tempos + ticks, 0))
    return score.timed(lambda old: old + ticks, tempos=tempos, meters=score.meters)
