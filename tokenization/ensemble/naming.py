"""The parts that a user names: tracks of a piece, by number or name, and instruments."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import cache

import numpy as np

from tokenization.ensemble.spelling import instrument_of, names_of, new_track
from tokenization.ensemble.tokens import DRUMS, FAMILIES, HARMONY, PART_NAMES, PITCHED
from tokenization.language import ANOTHER, Wanted
from tokenization.midi.instruments import INSTRUMENTS
from tokenization.score import Track
from tokenization.wording import listed


def parts_named(tracks: Sequence[Track], names: Collection[int | str]) -> list[Wanted]:
    """Return the parts that names refer to: tracks of the piece, new tracks, and the chords.

    A number is one of these tracks, and a text of digits is one of the file's, both from 0. Any other text is the name
    of a track, or else an instrument, which tracks play by their program: one of this language or of General MIDI,
    drums, or chords. All tracks of that name are meant; if there are none, a new one. A text of several names of one
    word is read as such.
    """
    found: list[Wanted] = []
    for name in names:
        new = [part for part in found if isinstance(part, Track)]
        found += _parts_of(tracks, name, [track.name for track in (*tracks, *new)])
    return [*dict.fromkeys(found)]


def _parts_of(tracks: Sequence[Track], name: int | str, taken: list[str]) -> list[Wanted]:
    """Return the parts that one name refers to; those that it adds get names that are not taken."""
    if not isinstance(name, str):
        return _numbered(tracks, [int(name) == n for n in range(len(tracks))], name)
    wanted, adds = plain_name(name), name.strip().startswith(ANOTHER)
    if not adds and (own := _titled(tracks, wanted)):
        return own
    if name.strip().isdecimal():
        files = [track.sources or (n,) for n, track in enumerate(tracks)]
        return _numbered(tracks, [int(name) in sources for sources in files], name)
    if found := _instrument(tracks, wanted, taken if adds else None):
        return found
    several = [_titled(tracks, word) or _instrument(tracks, word) for word in wanted.split()]
    if several and all(several):
        return [part for one in several for part in one]
    typed = name.strip().removeprefix(ANOTHER).strip()  # programs add the plus, too
    raise ValueError(_unknown(tracks, typed or name))


def _titled(tracks: Sequence[Track], wanted: str) -> list[Wanted]:
    """Return the tracks with a name."""
    return [n for n, track in enumerate(tracks) if wanted and plain_name(track.name) == wanted]


def _numbered(tracks: Sequence[Track], is_meant: list[bool], name: int | str) -> list[Wanted]:
    if not any(is_meant):
        raise ValueError(f"there is no track {name}; the piece has {_told(tracks)}")
    return [number for number, meant in enumerate(is_meant) if meant]


def _instrument(
    tracks: Sequence[Track], wanted: str, taken: list[str] | None = None
) -> list[Wanted]:
    """Return the tracks that play an instrument, or a new one; nothing if its name is unknown.

    With names that are `taken`, always a new one, but there is only one drum kit.
    """
    parts, programs = _known()
    if wanted in parts:
        instruments = parts[wanted]
        if instruments[0] == HARMONY:
            return ["chords"]
        own = [n for n, track in enumerate(tracks) if instrument_of(track) in instruments]
        new = new_track(instruments[0], 1)
        if instruments[0] == DRUMS:
            taken = None
    elif wanted in programs:
        own = [n for n, track in enumerate(tracks) if track == Track(track.name, programs[wanted])]
        new = Track(INSTRUMENTS[programs[wanted]], programs[wanted])
    else:
        numbered = names_of(np.array([instrument_of(track) for track in tracks], np.int64))
        return [n for n, each in enumerate(numbered) if plain_name(each) == wanted]
    if taken is None:
        return [*own] or [new]
    numbered = (f"{new.name} {number}" for number in range(2, len(taken) + 3))
    name = next(one for one in (new.name, *numbered) if one not in taken)
    return [Track(name, new.program, new.is_drum)]


def plain_name(name: str) -> str:
    """Return the words of a name in lower case."""
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))


@cache
def _known() -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the instruments of this language and the programs of General MIDI, by plain names."""
    parts = {name: (number,) for number, name in enumerate(PART_NAMES)}
    parts |= {name: tuple(map(PART_NAMES.index, members)) for name, members in FAMILIES.items()}
    named = {plain_name(name): members for name, members in parts.items()}
    for name, members in [*named.items()]:  # in the singular and in the plural
        named.setdefault(name.removesuffix("s") if members[0] >= PITCHED else f"{name}s", members)
    programs: dict[str, int] = {}
    for number, name in enumerate(INSTRUMENTS):
        short = re.sub(r"\(.*\)|\d", "", name)
        for one in (plain_name(name), plain_name(short)):
            programs.setdefault(one, number)
    return named, programs


def _told(tracks: Sequence[Track]) -> str:
    """Return the tracks with the numbers that they have in the file."""
    numbers = ((track.sources or (n,))[0] for n, track in enumerate(tracks))
    return listed(
        [
            f"{n} ({track.name.strip() or 'unnamed'})"
            for n, track in zip(numbers, tracks, strict=True)
        ]
    )


def _unknown(tracks: Sequence[Track], name: str) -> str:
    known = {plain_name(one): one for one in (*INSTRUMENTS, *PART_NAMES, *FAMILIES)}
    known = {word: one.replace("_", " ") for word, one in known.items()}
    known |= {plain_name(track.name): track.name for track in tracks}
    near = [repr(known[one]) for one in get_close_matches(plain_name(name), known, n=2)]
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return (
        f"there is no track or instrument {name!r}{hint}; the piece has {_told(tracks)}, "
        "and drums, chords and every instrument of General MIDI can be added"
    )
