"""Read what a MIDI file says to readers: its title, its composer, and the words that are sung."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tokenization.score import Lyric, Texts

LONGEST = 200  # characters of a title, name or syllable
LEAST_SYLLABLES = 8  # of texts that are taken for the words of a karaoke file
# Names of a first track that describe what it is for.
_NO_TITLE = re.compile(
    r"(?i)(untitled|conductor|tempo|master|control|meta|midi|header|global|seq|sequence|track|song|new)\b.{0,12}|\W*"
)
_COMPOSER = re.compile(r"(?i)(?:composer|composed by|(?:words and )?music by)[:\s]\s*(.+)")
_BLANKS = "\0 \t\r\n"
Onsets = Mapping[int, Sequence[int]]  # of each track of the score


class Said(NamedTuple):
    """A text event of a chunk."""

    chunk: int
    tick: int
    kind: str  # "text", "name" of a track or "lyric"
    text: str


def texts_of(said: Sequence[Said], tracks: Mapping[int, list[int]], onsets: Onsets) -> Texts:
    """Return the texts of a file; `tracks` are the tracks of the score by chunk."""
    said = [one._replace(text=_clean(one.text)) for one in said]
    plain = [one.text for one in said if one.kind == "text"]
    at = [text[2:].strip() for text in plain if text.startswith("@T")]  # of karaoke files
    # The first track without notes has the name of the piece.
    names = [
        one.text.strip()
        for one in said
        if one.kind == "name" and not one.chunk and not tracks.get(0)
    ]
    names = [name for name in names if not _NO_TITLE.fullmatch(name)]
    composers = [found[1].strip() for text in plain if (found := _COMPOSER.match(text))]
    return Texts(
        title=next(iter(at or names), ""),
        composer=next(iter(composers or at[1:]), ""),
        lyrics=_lyrics(said, tracks, onsets),
    )


def _clean(text: str) -> str:
    return "".join(c for c in text if c.isprintable() or c in _BLANKS)[:LONGEST]


def _lyrics(
    said: Sequence[Said], tracks: Mapping[int, list[int]], onsets: Onsets
) -> tuple[Lyric, ...]:
    syllables: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    is_karaoke = all(one.kind != "lyric" for one in said)
    for chunk, tick, kind, text in said:
        if kind == "lyric" or (is_karaoke and kind == "text" and tick and not text.startswith("@")):
            syllables[chunk].append((tick, text))
    found: list[Lyric] = []
    for number, some in syllables.items() if onsets else ():
        if is_karaoke and len(some) < LEAST_SYLLABLES:
            continue
        some.sort(key=lambda one: one[0])
        source = _singer([tick for tick, _ in some], tracks.get(number) or [*onsets], onsets)
        spaced = any(text[:1] == " " or text[-1:] == " " for _, text in some)
        for (tick, text), (_, after) in zip(some, [*some[1:], (0, " ")], strict=True):
            words = text.strip(_BLANKS + "/\\")
            ended = after[:1] in (" ", "/", "\\", "\r", "\n", "") or text[-1:] in _BLANKS
            one = Lyric(
                tick,
                words.removesuffix("-").strip(),
                source,
                words.endswith("-") or (spaced and not ended),
            )
            if one.text:
                found.append(
                    one if not one.text.startswith("-") else replace(one, text=one.text[1:])
                )
    return tuple(sorted(found, key=lambda one: one.onset_ticks))


def _singer(ticks: Sequence[int], candidates: Sequence[int], onsets: Onsets) -> int:
    """Return the track with a note at most of the syllables."""
    wanted = {*ticks}
    matches = Counter(
        {track: len(wanted.intersection(onsets.get(track, ()))) for track in candidates}
    )
    return max(candidates, key=lambda track: matches[track])
