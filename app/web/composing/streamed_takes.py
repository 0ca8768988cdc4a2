"""Streaming takes to the page: first the given music, then the changes, finally everything."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from app.web.composing.plain_piece import reading_of_written
from musicgen.continuation import MusicGeneration, Take
from musicgen.pieces import piece_of
from tokenization.analysis.chords import key as estimated_key
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.analysis.spelling import keys_of, stated_key
from tokenization.changes import Reading
from tokenization.edit import Edit
from tokenization.formats import read_file
from tokenization.language import Language
from tokenization.limits import UPLOAD
from tokenization.midi.instruments import instrument_name
from tokenization.score import Columns, Score, Track


def piece_data(score: Score, bars: int) -> dict[str, Any]:
    """Return a score as plain data for the page, with the lines of `bars` bars, at least one."""
    found = columns(score, max(1, bars))
    return {
        **found,
        "notes": found["notes"].ravel().tolist(),
        "ticksPerBeat": score.ticks_per_beat,
        "centre": keys_of(score)[0][1].centre,
        "key": _key(score),
    }


def _key(score: Score) -> list[int] | None:
    """Return the key as sharps, or flats if negative, whether it is minor, and whether no signature says so."""
    notes = score.pitched
    if not len(notes):
        return None
    stated = stated_key(score)
    found = estimated_key(notes.pitch, notes.duration_ticks, None, stated)
    is_minor, major = found >= 12, (found + 3 * (found >= 12)) % 12  # of the signature
    fifths = (7 * major + 5) % 12 - 5
    if stated is None:
        return [fifths, int(is_minor), 1]
    fits = (stated[0] - fifths) % 12 == 0  # major is often written for minor, too
    return [stated[0], int(stated[1] or (fits and is_minor)), 0]


def columns(score: Score, bars: int) -> dict[str, Any]:
    """Return the columns of a score that can change while it is written: the notes as an array, the others as lists.

    New metres move the lines of later bars; a new piece has no tracks at first.
    """
    tempos = zip(*(column.tolist() for column in score.tempos.columns), strict=True)
    return {
        "tracks": [
            {"name": name, "program": track.program, "drum": track.is_drum}
            for name, track in zip(_names(score.tracks), score.tracks, strict=True)
        ],
        # Onset, duration, pitch, velocity and track, in order of onset.
        "notes": np.stack(score.notes.columns, axis=-1),  # (N, 5)
        "tempos": [[int(tick), round(float(tempo), 3)] for tick, tempo in tempos],
        # The page spells them by the key; then whether it is a guess, and the symbol if that says more.
        "chords": [
            [one.onset_ticks, one.text, int(one.is_guess), one.symbol] for one in score.markers
        ],
        "meters": _column_rows(score.meters),
        "lines": bar_lines(score, bars).tolist(),
    }


def _names(tracks: Sequence[Track]) -> list[str]:
    """Return the names of tracks: their instruments if they have none, or share one as in a file of type 0."""
    kinds: dict[str, set[tuple[int, bool]]] = defaultdict(set)
    for track in tracks:
        kinds[track.name].add((track.program, track.is_drum))
    return [
        track.name if track.name and len(kinds[track.name]) == 1 else instrument_name(track)
        for track in tracks
    ]


def _column_rows(table: Columns) -> list[list[int]]:
    return np.stack(table.columns, axis=-1).tolist() if len(table) else []


@dataclass(frozen=True, kw_only=True)
class Region:
    """The part of a piece that is written: notes that begin in some bars, of all or some tracks."""

    first: int  # bar, from 0
    stop: int
    tracks: tuple[int, ...] | None = None
    prompt: Score | None = None  # with which the style is compared
    is_open: bool = False  # the piece ends where the new part ends
    begun: int = 0  # bars of the piece before the first sampled token

    def is_new(self, score: Score) -> np.ndarray:
        """Return which notes are in the region: (N,) bool."""
        start, stop = bar_lines(score, self.stop)[[self.first, self.stop]]
        notes = score.notes
        here = (notes.onset_ticks >= start) & (notes.onset_ticks < stop)
        return here if self.tracks is None else here & np.isin(notes.track, self.tracks)


def files_of(take: Take, language: Language) -> dict[str, Any]:
    """Return the files of a take for the page: MIDI, and the opened file with the take in it, or why there is none.

    Later requests use the MIDI. It is the opened file with the take, if the language reads that as the same piece:
    tracked beats, and parts recognised by their notes, may come out differently. Otherwise that file is `kept` for
    saving only. MusicXML is `kept`, too; if it reads as the `same` piece, later requests use it. The reading is of the
    file that later requests use.
    """
    if not len(take.score.notes):
        return {"midi": ""}
    is_read_only = take.edit is not None and take.edit.kind == "abc"
    plain = (take if is_read_only else replace(take, edit=None)).file(".mid")[0]
    files = {"midi": as_text(plain), "reading": reading_data(reading_of_written(take.score))}
    if take.edit is None or take.edit.kind not in ("midi", "musicxml"):
        return files
    kind = take.edit.kind
    suffix = ".mid" if kind == "midi" else ".musicxml"
    data, said = take.file(suffix)
    if said:
        return {**files, "notKept": said}
    file = read_file(data, limits=UPLOAD)
    heard = _heard_as(file, take.score, language)
    if heard is not None:
        files["reading"] = reading_data(Reading.of(heard, language.onset_steps))
    if heard is not None and kind == "midi":
        return {**files, "midi": as_text(data)}
    reading = reading_data(_reading_in(file, take.score, take.edit))
    kept = {"data": as_text(data), "ending": suffix, "same": heard is not None, "reading": reading}
    return {**files, "kept": kept}


def as_text(data: bytes) -> str:
    """Return bytes as text for JSON."""
    return base64.b64encode(data).decode()


def decoded(sent: Any) -> bytes:
    """Return the bytes of a file in base64."""
    try:
        return base64.b64decode(sent, validate=True)
    except (TypeError, ValueError):
        raise ValueError("file must be the bytes of a file in base64") from None


def reading_data(reading: Reading) -> dict[str, Any]:
    """Return a reading as plain data, for the edits of the page."""
    return asdict(reading)


def _reading_in(file: Score, score: Score, edit: Edit) -> Reading:
    """Return the reading of a file into which a score was written; its tracks are found by their notes."""
    beats = edit.heard.file_times.beats
    last = max(score.end_ticks / score.ticks_per_beat, float(beats[-1]) + 1)
    beats = np.unique([*beats, edit.start / score.ticks_per_beat, last])
    ticks = edit.tick_of(np.rint(beats * score.ticks_per_beat)).astype(np.float64)
    apart = np.flatnonzero(np.diff(ticks, prepend=-np.inf) > 0)
    places = defaultdict[tuple[int, int], set[int]](set)
    for (tick, pitch, _), track in _file_notes(file):
        places[tick, pitch].add(track)
    found: list[Counter[int]] = [Counter() for _ in score.tracks]
    at = edit.tick_of(score.notes.onset_ticks).tolist()
    for tick, pitch, track in zip(at, score.notes.pitch.tolist(), score.notes.track.tolist(), strict=True):  # fmt: skip
        found[track].update(places[tick, pitch])
    # Given notes are heard as rounded, and other tracks can have the same.
    now, sources = _tracks_now(read_file(edit.original, limits=UPLOAD), file), list[set[int]]()
    for track, some in enumerate(found):
        own = edit.heard.tracks[track].sources if track < len(edit.heard.tracks) else ()
        alike = {n for n, count in some.items() if 2 * count > some.most_common(1)[0][1]}
        known = {now[source] for source in own if source in now}
        sources.append(known | (alike - {*now.values()}) or alike)
    return Reading(
        ticks_per_beat=score.ticks_per_beat,
        sources=tuple(tuple(sorted(some)) for some in sources),
        beats=tuple(beats[apart].tolist()),
        file_ticks=tuple(ticks[apart].tolist()),
        steps=edit.onset_steps,
    )


def _file_notes(file: Score) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield the notes of a file as its tick, pitch and velocity, with their tracks."""
    scale = float(file.file_times.columns[1][-1]) / file.ticks_per_beat
    columns = (file.notes.columns[n].tolist() for n in (0, 2, 3, 4))
    for at, pitch, velocity, track in zip(*columns, strict=True):
        for source in file.tracks[track].sources:
            yield (round(at * scale), pitch, velocity), source


def _tracks_now(before: Score, after: Score) -> dict[int, int]:
    """Return the tracks of a file after new music was written into it, by those before, whose notes they have."""
    places = defaultdict[tuple[int, int, int], set[int]](set)
    for note, track in _file_notes(after):
        places[note].add(track)
    found = defaultdict[int, Counter[int]](Counter)
    for note, track in _file_notes(before):
        found[track].update(places[note])
    return {
        track: max(counts, key=lambda n: (counts[n], -abs(n - track)))
        for track, counts in found.items()
        if counts
    }


def _heard_as(file: Score, score: Score, language: Language) -> Score | None:
    """Return a file as a language reads it if that is a score, with its bars and notes apart from durations."""
    try:
        heard = piece_of(language, file, "").score
    except ValueError:
        return None
    bars = bar_count(score)
    lines = [bar_lines(one, bars) * 96 // one.ticks_per_beat for one in (score, heard)]
    columns = [(one.notes.onset_ticks, one.notes.pitch, one.notes.track) for one in (score, heard)]
    places = [set(zip(*(column.tolist() for column in one), strict=True)) for one in columns]
    is_same = bool((lines[0] == lines[1]).all()) and places[0] == places[1]
    return heard if is_same else None


class StreamedTakes:
    """The views of a request.

    If several takes are drawn for each, the first of them is shown until the best can be chosen.
    """

    def __init__(self, work: MusicGeneration, region: Region, *, bars: int) -> None:
        self.work, self.region, self.bars = work, region, bars
        self._last: list[dict[str, Any]] = []
        self._now: list[int] = []

    def begun(self) -> dict[str, Any]:
        """Return the view before the first note, when all takes are alike."""
        [take] = self.work.takes(choosing=False, most=1)
        count = len(range(0, len(self.work.job.rows), self.work.each))
        self._last = [columns(take.score, self.bars)] * count
        self._now = [self._cut_at_now(take.score, 0)[1]] * count
        piece, region = piece_data(take.score, self.bars), self._region_data(self.region.stop)
        takes = [{"number": number, "piece": piece, "region": region} for number in range(count)]
        return {"state": "running", "takes": takes}

    def more(self, bars: int = 0) -> dict[str, Any] | None:
        """Return the changes since the last view, or None if there are none.

        `bars` have begun in every variation since the first sampled token: silent bars are progress, too.
        """
        news, changed = [], False
        for number, take in enumerate(self.work.takes(choosing=False)):
            cut, now = self._cut_at_now(take.score, bars)
            grown, last = columns(cut, self.bars), self._last[number]
            changes = {name: _change(last[name], rows) for name, rows in grown.items()}
            news.append({"number": number, "now": now, **changes})
            changed = changed or now != self._now[number]
            changed = changed or any(
                change["add"] or change["keep"] < len(last[name])
                for name, change in changes.items()
            )
            self._last[number], self._now[number] = grown, now
        return {"state": "running", "takes": news} if changed else None

    def finished(
        self,
        state: str,
        seconds: float,
        files: Callable[[Take, Language], dict[str, Any]],
        settled: Collection[int] = (),
    ) -> dict[str, Any]:
        """Return the last view: the variations with all their facts, and the `files` of each.

        The `settled` ones stay as they were shown.
        """
        takes = self.work.takes(choosing=state != "stopped", settled=settled)
        return {
            "state": state,
            "seconds": round(seconds, 1),
            "takes": [
                {
                    **self._final_facts(take, state),
                    **files(take, self.work.model.language),
                    "number": number,
                }
                for number, take in enumerate(takes)
            ],
        }

    def _final_facts(self, take: Take, state: str) -> dict[str, Any]:
        new = self.region.is_new(take.score)
        bars = self.bars
        if state != "done" and self.region.is_open:  # cut after the bar of its last note
            reached = take.score.notes.onset_ticks[new].max(initial=-1)
            lines = bar_lines(take.score, self.bars)
            bars = max(int(np.searchsorted(lines, reached, side="right")), self.region.first, 1)
        return {
            "piece": piece_data(take.score, bars),
            "new": int(new.sum()),
            "remarks": [*take.score.remarks],
            "seed": self.work.request.seed,
            "provenance": take.provenance,
            "region": self._region_data(min(bars, self.region.stop)),
        }

    def _region_data(self, stop: int) -> dict[str, Any]:
        tracks = None if self.region.tracks is None else [*self.region.tracks]
        return {"first": self.region.first, "stop": stop, "tracks": tracks}

    def _cut_at_now(self, score: Score, bars: int) -> tuple[Score, int]:
        """Return the score with its new notes cut at the current position, and that position in ticks.

        It is the latest onset or the end of the last complete bar. `bars` have begun since the first sampled token, the
        last of which is still being written.
        """
        new = self.region.is_new(score)
        onsets, notes = score.notes.onset_ticks, score.notes
        complete = max(self.region.first, self.region.begun + bars - 1)
        start = int(bar_lines(score, self.region.stop)[min(complete, self.region.stop)])
        now = int(onsets[new].max(initial=start))
        shortest = np.minimum(notes.duration_ticks, max(1, score.ticks_per_beat // 4))
        clipped = np.maximum(np.minimum(notes.duration_ticks, now - onsets), shortest)
        durations = np.where(new, clipped, notes.duration_ticks)
        return score.replace(notes=notes.replace(duration_ticks=durations)), now


def _change(before: Any, after: Any) -> dict[str, Any]:
    """Return the number of leading rows that stay, and the new rows after them, of two arrays or two lists."""
    if isinstance(after, np.ndarray):
        least = min(len(before), len(after))
        differs = (before[:least] != after[:least]).any(axis=1)
        keep = int(differs.argmax()) if differs.any() else least
        return {"keep": keep, "add": after[keep:].tolist()}
    keep = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        keep += 1
    return {"keep": keep, "add": after[keep:]}
