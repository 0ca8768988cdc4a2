"""Build small MusicXML files, and show what was read from files."""

import io
import zipfile

from tokenization.score import Score

HARMONY = "<harmony><root><root-step>C</root-step></root><kind>major</kind></harmony>"
CONTAINER = '<container><rootfiles><rootfile full-path="score.xml"/></rootfiles></container>'


def note(step: str, octave: int, duration: int, inside: str = "", before: str = "") -> str:
    pitch = f"<pitch><step>{step}</step><octave>{octave}</octave></pitch>"
    return f"<note>{before}{pitch}<duration>{duration}</duration>{inside}</note>"


def rest(duration: int) -> str:
    return f"<note><rest/><duration>{duration}</duration></note>"


def grace(step: str, octave: int, before: str = "") -> str:
    pitch = f"<pitch><step>{step}</step><octave>{octave}</octave></pitch>"
    return f"<note><grace/>{before}{pitch}</note>"


def time(beats: object, beat_type: object) -> str:
    return f"<time><beats>{beats}</beats><beat-type>{beat_type}</beat-type></time>"


def bars(*contents: str, beats: int = 4, beat_type: int = 4, divisions: int = 2) -> str:
    """Return measures; the first has the divisions and time signature."""
    first = f"<attributes><divisions>{divisions}</divisions>{time(beats, beat_type)}</attributes>"
    return "".join(
        f'<measure number="{n}">{first if n == 1 else ""}{content}</measure>'
        for n, content in enumerate(contents, 1)
    )


def score(*parts: str, listed: str = "", head: str = "") -> bytes:
    parts_listed = listed or "".join(
        f'<score-part id="P{n}"><part-name>part {n}</part-name></score-part>'
        for n in range(1, len(parts) + 1)
    )
    music = "".join(f'<part id="P{n}">{part}</part>' for n, part in enumerate(parts, 1))
    return (
        f'<?xml version="1.0"?>{head}<score-partwise><part-list>{parts_listed}</part-list>{music}'
        "</score-partwise>"
    ).encode()


def compressed(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Compress a score as `.mxl`."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name, content in (("META-INF/container.xml", CONTAINER), ("score.xml", data)):
            archive.writestr(zipfile.ZipInfo(name), content, method)  # with a constant date
    return file.getvalue()


def heard(found: Score, track: int | None = None) -> list[tuple[float, float, int]]:
    """Return (onset, duration, pitch) in beats for the notes of one track or of all."""
    notes = found.notes if track is None else found.notes[found.notes.track == track]
    beats, columns = found.ticks_per_beat, (column.tolist() for column in notes.columns[:3])
    return [(at / beats, long / beats, pitch) for at, long, pitch in zip(*columns, strict=True)]


def meters(found: Score) -> list[tuple[float, int, int]]:
    """Return (onset in beats, numerator, denominator) for each metre."""
    at, numerator, denominator = (column.tolist() for column in found.meters.columns)
    beats = [tick / found.ticks_per_beat for tick in at]
    return list(zip(beats, numerator, denominator, strict=True))
