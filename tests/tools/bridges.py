"""Try the scripts for other programs with all kinds of projects: python -m tests.tools.bridges [--only reaper ardour].

Bars 3 and 4 of a track are written again in REAPER's stand-in, a session of Ardour without its window, and MuseScore 3
on a display of its own. A cell is the number of new notes and of what was changed elsewhere, or else the sentence that
was said, below the table. The exit code is 1 if anything else was changed, a note is outside the bars, or a sentence is
not the expected one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np

from app.commands.bridge import program, script
from tests.app.web.browser import free_port, started
from tests.bridges import musescore, test_ardour, test_reaper
from tests.bridges.projects import Project, Row
from tests.bridges.sessions import create
from tests.tools.options import options
from tokenization.formats import notated, read_file
from tokenization.midi.rows import rows_of
from tokenization.midi.writing import write_midi
from tokenization.score import Meters, Notes, Score, Tempos, Track

FIRST, COUNT = 3, 2  # the bars that are written
NEAR = 1e-3  # quarters
NOTHING = "/bin/false"  # what is started in place of a server
PROGRAMS = {"Lead": 73, "B-flat Trumpet": 56, "Bass": 33}
PICKUP = "X:1\nM:3/4\nL:1/4\nQ:1/4=120\nK:G\nD|" + "GBd|edc|BAG|FGA|" * 2


def pitch(n: int) -> int:
    """Return a pitch of a melody that does not repeat, so that other bars of it are others."""
    return 67 + (0, 2, 4, 5, 7, 9, 11, 12)[(n * n + n // 3) % 8]


def tune(step: float = 1, quarters: float = 32, first: float = 0) -> list[Row]:
    """Return an even melody."""
    times = np.arange(first, quarters - 1e-9, step).tolist()
    return [(at, step, pitch(n), 70 + n % 9) for n, at in enumerate(times)]


def swung() -> list[Row]:
    return [(n // 2 + n % 2 * 2 / 3, (2 - n % 2) / 3, pitch(n), 80) for n in range(64)]


def drums() -> list[Row]:
    """Return a beat, and in bars 3 and 4 only a hi-hat."""
    return [
        (at / 2, 0.25, 42 if 16 <= at < 32 else 36 + at % 2 * 2, 60 + 20 * (at % 2))
        for at in range(64)
    ]


def of(lead: list[Row], quarters: float = 32, name: str = "Lead", **more: object) -> Project:
    tracks = {
        name: lead,
        "Bass": [(at, 2, 40 + int(at) % 7, 80) for at in range(0, int(quarters), 2)],
    }
    return Project(tracks, **more)  # type: ignore[arg-type]


ODD, BARS = {0: (7, 8), 4: (5, 4)}, 300
PROJECTS: dict[str, Project] = {
    "swing": of(swung()),
    "triplets": of(tune(1 / 3)),
    "a pickup": of(tune(1, first=3)),
    "7/8 and 5/4": of(tune(0.5, 34), 34, metres=ODD),
    "changes of tempo": of(tune(), tempos={0: 120, 2: 90, 3: 150}),
    "drums": of(drums(), name="Kit", on_drums=["Kit"]),
    "transposing": of(tune(), name="B-flat Trumpet"),
    "beside audio": of(tune(), audio=["Voice"]),
    f"{BARS} bars": of(tune(1, 4 * BARS), 4 * BARS, bars=BARS),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a request did."""

    new: int = 0  # notes
    changed: int = 0  # of what it was not to write: tracks, or bars
    outside: int = 0  # new notes outside the bars
    said: str = ""

    @property
    def cell(self) -> str:
        return "said" if self.said else f"{self.new} new, {self.changed + self.outside} else"


NONE = Outcome(said="There is no such thing in MuseScore.")
UNREAD = Outcome(said="Nothing was written; what its window says is not read.")
Ask = Callable[[str, Project], Outcome]


# The server: one that works, one that is missing, and two that do not.


class Broken(BaseHTTPRequestHandler):
    """A server that is busy, or stops in the middle of its answer."""

    is_busy = False

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"User-agent: *\n")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503 if self.is_busy else 200)
        self.end_headers()
        busy = b'{"detail":"Too many requests are running; try again in a moment."}'
        self.wfile.write(busy if self.is_busy else b'{"bars":1,"of":2}\n')

    def log_message(self, *_: object) -> None:
        """Be quiet."""


class Busy(Broken):
    """A server that is busy."""

    is_busy = True


def announce(home: Path, port: int) -> None:
    (home / ".musicgen").mkdir(exist_ok=True)
    address = f'{{"address": "http://127.0.0.1:{port}/", "token": ""}}'
    (home / ".musicgen/server.json").write_text(address)


@contextmanager
def broken(home: Path, kind: type[Broken] | None) -> Iterator[None]:
    """Announce a server that does not work, or none, and the working one again at the end."""
    known = (home / ".musicgen/server.json").read_text()
    try:
        if kind is None:
            announce(home, free_port())
            yield
            return
        with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            announce(home, server.server_port)
            yield
            server.shutdown()
    finally:
        (home / ".musicgen/server.json").write_text(known)


FAULTS: dict[str, type[Broken] | None] = {
    "no server": None, "a busy one": Busy, "one that stops": Broken,
}  # fmt: skip
CASES = [
    *PROJECTS, "nothing selected", "audio selected", *FAULTS, "changed meanwhile", "asked again",
]  # fmt: skip
WORDS = {
    "nothing selected": "Select", "audio selected": "Audio cannot be read", "no server": "does not answer",
    "a busy one": "Too many requests", "one that stops": "has stopped", "changed meanwhile": "changed meanwhile",
}  # fmt: skip


# REAPER.


def as_reaper(project: Project, **more: object) -> dict[str, object]:
    """Return a project for the stand-in of REAPER, with bars 3 and 4 of its first track selected."""
    tracks = []
    for n, (name, rows) in enumerate(project.tracks.items()):
        channel = 9 * (name in project.on_drums)
        notes = [
            [at, at + length, pitch, velocity, channel] for at, length, pitch, velocity in rows
        ]
        item = {"from": 0, "to": project.quarters, "notes": notes}
        tracks.append({"name": name, "items": [item], "selected": not n})
    audio = [
        {"name": name, "items": [{"from": 0, "to": 32, "audio": True}]} for name in project.audio
    ]
    bars = [[*project.metre(bar), project.tempo(bar)] for bar in range(project.bars)]
    span = [project.line(FIRST - 1), project.line(FIRST - 1 + COUNT)]
    return {"bars": bars, "tracks": [*tracks, *audio], "range": span, **more}


def is_kept(found: dict, track: dict) -> bool:
    """Return whether a track has its items with their notes, as printed, in their first takes."""
    rounded = [
        ((item["from"], item["to"]), [tuple(round(one, 4) for one in note) for note in item.get("notes", [])])
        for item in track["items"]
    ]  # fmt: skip
    items = found["tracks"][track["name"]][: len(rounded)]
    return [(span, takes[0][1]) for span, takes in items] == rounded


def in_reaper(home: Path) -> Ask:
    def ask(case: str, project: Project) -> Outcome:
        given: dict = as_reaper(project)
        if case == "nothing selected":
            del given["range"]
        if case == "audio selected":
            given["tracks"][-1]["items"][0]["selected"] = True
            del given["range"]
        if case == "changed meanwhile":
            given["edited_meanwhile"] = True
        found = test_reaper.ran(home, given, 1, "flute")
        changed = sum(not is_kept(found, track) for track in given["tracks"])
        if found["said"]:
            (said,) = found["said"]
            return Outcome(said=said, changed=changed + len(found["undo"]))
        count = {track["name"]: len(track["items"]) for track in given["tracks"]}
        new = [
            note
            for name, items in found["tracks"].items()
            for n, (_, takes) in enumerate(items)
            for k, (_, notes) in enumerate(takes)
            for note in notes
            if n >= count.get(name, 0) or k
        ]
        start, stop = given["range"]
        outside = sum(not start - NEAR <= note[0] <= note[1] <= stop + NEAR for note in new)
        return Outcome(len(new), changed, outside)

    return ask


# Ardour.


def in_ardour(home: Path) -> Ask:
    made: list[Project] = []

    def ask(case: str, project: Project) -> Outcome:
        if case == "changed meanwhile":
            return Outcome(said="Nothing can be changed meanwhile: Ardour waits.")
        if [project] != made:
            made[:] = [project]
            create(home, project)
        start, stop = (round(project.line(bar)) for bar in (FIRST - 1, FIRST - 1 + COUNT))
        span = "8-8" if case == "nothing selected" else f"{start}-{stop}"
        before = test_ardour.playlists(home)
        more = {"AUDIO": "1"} if case == "audio selected" else {}
        found = test_ardour.ran(home, "rewrite", span, "", next(iter(project.tracks)), **more)
        changed = int(test_ardour.playlists(home) != before)
        if "said" in found:
            return Outcome(said=found["said"], changed=changed + len([*(home / "new").iterdir()]))
        if "at" not in found:
            return Outcome(said=str(found), changed=1)
        zero, new = float(found["at"]), list[tuple[float, float]]()
        for path in (home / "new").iterdir():
            rows = rows_of(path.read_bytes())
            beat = rows["ticksPerBeat"]
            new += [
                (zero + at / beat, zero + (at + length) / beat)
                for _, at, length, *_ in rows["notes"]
            ]
        outside = sum(not start - NEAR <= on <= off <= stop + NEAR for on, off in new)
        return Outcome(len(new), changed, outside)

    return ask


# MuseScore.


def score_of(project: Project) -> Score:
    """Return a project as a score."""
    rows = [
        (round(at * 480), max(1, round(length * 480)), pitch, velocity, n)
        for n, track in enumerate(project.tracks.values())
        for at, length, pitch, velocity in track
    ]
    tracks = tuple(
        Track(name.replace("-flat", "♭"), PROGRAMS.get(name, 0), name in project.on_drums)
        for name in project.tracks
    )
    starts = [(round(480 * project.line(bar)), *metre) for bar, metre in project.metres.items()]
    tempos = [(round(480 * project.line(bar)), bpm) for bar, bpm in project.tempos.items()]
    return Score(
        ticks_per_beat=480,
        notes=Notes(*np.array(sorted(rows)).T).sorted(),
        tracks=tracks,
        meters=Meters(*np.array(starts).T),
        tempos=Tempos(*np.array(tempos).T),
    )


def as_musicxml(case: str, project: Project) -> bytes:
    if case == "a pickup":
        data = PICKUP.encode()
        return notated(data, read_file(data, suffix=".abc"), "song", suffix=".abc")
    data = write_midi(score_of(project))
    return notated(data, read_file(data), "song", suffix=".mid")


def notes_in(bars: list[str]) -> int:
    return sum(bar.count("<pitch>") for bar in bars)


def in_musescore(home: Path) -> Ask:
    """The plugin, which writes another take in place of the bars; the old one is kept by undo."""
    bars = [*range(FIRST, FIRST + COUNT)]

    def heard(hands: musescore.Hands, before: list[list[str]], seconds: int) -> Outcome | None:
        """Return what was written, as soon as something is."""
        for _ in range(seconds // 2):
            after = hands.saved()
            if after != before:
                found = musescore.changed(before, after)
                elsewhere = sum(n not in bars for n in found.pop(0, [])) + sum(
                    map(len, found.values())
                )
                return Outcome(notes_in([after[0][n - 1] for n in bars]), elsewhere)
        return None

    def ask(case: str, project: Project) -> Outcome:
        if case == "audio selected" or project.audio:
            return NONE
        own = Path(tempfile.mkdtemp(dir=home))  # MuseScore asks about a session that was not closed
        os.environ["HOME"] = str(own)
        shutil.copytree(home / ".musicgen", own / ".musicgen")
        with musescore.running(own, as_musicxml(case, project), None, starts=NOTHING) as hands:
            before = hands.saved()
            if case == "nothing selected":
                hands.keys("Escape", "Escape")
            else:
                hands.select(FIRST, COUNT)
            hands.ask(1)
            if case == "changed meanwhile":
                hands.select(8, 1)
                hands.keys("Delete")
                before = hands.saved()
            quiet = 30 if case == "no server" else 8
            found = heard(hands, before, quiet if case in WORDS else 100)
            if case in WORDS and found is None:
                return UNREAD
            if found is None:
                return Outcome(said="nothing was written", changed=1)
            if case == "asked again":
                once = hands.saved()
                hands.keys("ctrl+z")
                is_back = hands.saved() == before
                hands.keys("ctrl+shift+z")
                return replace(
                    found, changed=found.changed + (not is_back) + (hands.saved() != once)
                )
            return found

    return ask


BRIDGES: dict[str, tuple[str, Callable[[Path], Ask]]] = {
    "reaper": ("musicgen_reaper.lua", in_reaper),
    "ardour": ("musicgen_ardour.lua", in_ardour),
    "musescore": ("musicgen.qml", in_musescore),
}
USUAL = PROJECTS["changes of tempo"]


def tried(name: str, home: Path, cases: list[str]) -> Iterator[tuple[str, Outcome]]:
    """Do all cases in a program."""
    file, of_home = BRIDGES[name]
    text = script(file).replace(program(), NOTHING)
    (home / "script.lua").write_text(text)
    ask = of_home(home)
    for case in cases:
        project = PROJECTS.get(case, USUAL)
        if case == "audio selected":
            project = PROJECTS["beside audio"]
        if case in FAULTS:
            with broken(home, FAULTS[case]):
                yield case, ask(case, project)
        else:
            yield case, ask(case, project)


def is_right(case: str, found: Outcome) -> bool:
    """Return whether an outcome is as wanted."""
    if found.changed or found.outside:
        return False
    waits = found in (NONE, UNREAD) or "Ardour" in found.said
    return waits or (WORDS[case] in found.said if case in WORDS else found.new > 0)


def main(words: list[str] | None = None) -> int:
    """Print the table."""
    given = options(__doc__, words=words, only=[*BRIDGES], cases=CASES)
    found: dict[tuple[str, str], Outcome] = {}
    own = os.environ["HOME"]
    for name in given.only:
        home = Path(tempfile.mkdtemp())
        os.environ["HOME"] = str(home)
        try:
            with started(HOME=str(home)):
                for case, outcome in tried(name, home, given.cases):
                    found[case, name] = outcome
                    print(f"{name}, {case}: {outcome.said or outcome.cell}", file=sys.stderr)
        finally:
            os.environ["HOME"] = own
            shutil.rmtree(home, ignore_errors=True)
    wide = max(map(len, given.cases))
    print(f"{'':<{wide}}  " + "".join(f"{name:<18}" for name in given.only))
    for case in given.cases:
        print(f"{case:<{wide}}  " + "".join(f"{found[case, name].cell:<18}" for name in given.only))
    for (case, name), one in found.items():
        if one.said:
            print(re.sub(r"\s+", " ", f"{name}, {case}: {one.said}"))
    wrong = [key for key, one in found.items() if not is_right(key[0], one)]
    print(f"{len(found)} tried, {len(wrong)} not as wanted{': ' if wrong else ''}{wrong or ''}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
