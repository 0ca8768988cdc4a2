"""Bands in twelve-bar form, made in code: a big band whose saxes and brass move in blocks, and a blues with a riff."""

from __future__ import annotations

from tests.tools.page.own_files import DRUMS, Row, midi, part

BARS = 24
ROOTS = (0, 5, 0, 0, 5, 5, 0, 0, 7, 5, 0, 7)  # of each bar of the form, above the key
SWUNG = 2 / 3  # of a beat: the place of the second eighth


def _root(bar: int) -> int:
    return ROOTS[bar % 12]


def _loud(bar: int, beat: float, base: int) -> int:
    """Return a velocity that breathes with phrase and beat."""
    return base + (bar * 5 + int(beat * 7)) % 13 - 4 * (beat % 1 > 0)


def block(pitch: int, *, voice: int, answers: bool = False) -> list[Row]:
    """Return one voice of a section: a riff in bars 1, 2 of four, or its answer in bars 3, 4."""
    rows: list[Row] = []
    call = ((0, 1.5), (1 + SWUNG, 0.3), (2, 0.6), (2 + SWUNG, 1.2))
    reply = ((1 + SWUNG, 0.4), (3, 0.8))
    for bar in range(BARS):
        if answers and bar % 4 < 2:
            continue
        for number, (beat, length) in enumerate(reply if answers else call):
            step = (
                (0, 2, 3, 0)[(number + bar) % 4] if voice == 0 else (0, 2, 2, 0)[(number + bar) % 4]
            )
            height = pitch + _root(bar) - (12 if _root(bar) > 5 else 0) + step
            rows.append((4 * bar + beat, length * 0.9, height, _loud(bar, beat, 84)))
    return rows


def walking(low: int) -> list[Row]:
    return [
        (4 * bar + beat, 0.85, low + _root(bar) + (0, 4, 7, 9 if bar % 2 else 10)[beat], _loud(bar, beat, 88))
        for bar in range(BARS) for beat in range(4)
    ]  # fmt: skip


def comping(middle: int, beats: tuple[float, ...], length: float) -> list[Row]:
    return [
        (4 * bar + beat, length, middle + _root(bar) % 7 + tone, _loud(bar, beat, 66))
        for bar in range(BARS) for beat in beats for tone in (0, 6, 11)
    ]  # fmt: skip


def swing_kit() -> list[Row]:
    """Return a ride beat with a fill on toms in every eighth bar, and a crash after it."""
    rows: list[Row] = []
    for bar in range(BARS):
        is_fill = bar % 8 == 7
        for beat in (0, 1, 1 + SWUNG, 2, 3, 3 + SWUNG):
            if not (is_fill and beat >= 2):
                rows.append((4 * bar + beat, 0.2, 51, _loud(bar, beat, 80)))
        rows += [(4 * bar + beat, 0.2, 44, 70) for beat in (1, 3)]
        rows.append((4.0 * bar, 0.2, 36, 76))
        if is_fill:
            toms = (50, 50, 48, 47, 45, 43)
            rows += [(4 * bar + 2 + n / 3, 0.2, tom, 90 + 3 * n) for n, tom in enumerate(toms)]
        if bar % 8 == 0 and bar:
            rows.append((4.0 * bar, 0.5, 49, 105))
    return rows


def rock_kit() -> list[Row]:
    """Return a backbeat with a fill in every fourth bar."""
    rows: list[Row] = []
    for bar in range(BARS):
        is_fill = bar % 4 == 3
        for eighth in range(8):
            if not (is_fill and eighth >= 4):
                rows.append((4 * bar + eighth / 2, 0.2, 42, _loud(bar, eighth / 2, 72)))
        rows += [(4 * bar + beat, 0.2, 36, 100) for beat in (0, 2.5)]
        rows += [(4 * bar + beat, 0.2, 38, 104) for beat in ((1,) if is_fill else (1, 3))]
        if is_fill:
            rows += [
                (4 * bar + 2 + n / 4, 0.2, (38, 48, 45, 43)[n // 2], 88 + 3 * n) for n in range(8)
            ]
        elif bar % 4 == 0 and bar:
            rows.append((4.0 * bar, 0.5, 49, 110))
    return rows


def riff(low: int) -> list[Row]:
    shape = ((0, 0), (0.5, 0), (1, 7), (1.5, 0), (2, 10), (2.5, 7), (3, 5), (3.5, 3))
    return [
        (4 * bar + beat, 0.45, low + _root(bar) + tone, _loud(bar, beat, 92))
        for bar in range(BARS) for beat, tone in shape
    ]  # fmt: skip


def organ(middle: int) -> list[Row]:
    return [
        (4.0 * bar, 3.8, middle + _root(bar) % 7 + tone, _loud(bar, 0, 62))
        for bar in range(BARS) for tone in (0, 4, 7, 10)
    ]  # fmt: skip


def big_band() -> bytes:
    """Return five saxes and four brass in blocks over guitar, piano, bass and drums."""
    saxes = (
        ("Alto 1", 65, 67),
        ("Alto 2", 65, 64),
        ("Tenor 1", 66, 60),
        ("Tenor 2", 66, 57),
        ("Baritone", 67, 48),
    )
    brass = (
        ("Trumpet 1", 56, 76),
        ("Trumpet 2", 56, 72),
        ("Trombone 1", 57, 64),
        ("Trombone 2", 57, 58),
    )
    parts = {
        name: part(n, program, block(pitch, voice=n))
        for n, (name, program, pitch) in enumerate(saxes)
    }
    for n, (name, program, pitch) in enumerate(brass):
        parts[name] = part(10 + n, program, block(pitch, voice=n, answers=True))
    parts["Guitar"] = part(5, 26, comping(52, (0, 1, 2, 3), 0.4))
    parts["Piano"] = part(6, 0, comping(60, (1 + SWUNG, 3), 0.7))
    parts["Bass"] = part(7, 32, walking(36))
    parts["Drums"] = part(DRUMS, 0, swing_kit())
    return midi(parts, tempo=150)[0]


def organ_blues() -> bytes:
    """Return a guitar riff over an organ that holds its chords, bass and drums."""
    return midi({
        "Guitar": part(0, 29, riff(52)), "Organ": part(1, 16, organ(57)),
        "Bass": part(2, 33, walking(40)), "Drums": part(DRUMS, 0, rock_kit()),
    }, tempo=120)[0]  # fmt: skip
