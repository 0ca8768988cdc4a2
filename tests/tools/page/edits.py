"""Edit files of many kinds, by the command's function and on the page in a browser: python -m tests.tools.page.edits.

Prints two tables of edits × files. A cell is the number of events (of MusicXML, elements of bars) that were changed
outside the edit in the saved file, or "notes" if the file cannot hold the edit, so that the notes alone are written;
the reasons are below. Every saved file is read by pretty_midi or music21. The exit code is 1 if an edit changed
anything else, or nothing. --only page or --only command prints one table; --files 2 takes only the first files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.app.web.browser import MODEL, OPTIONS, WAIT, chromium, serving
from tests.app.web.hands import downloaded, playback, rest, send
from tests.tokenization.midi.all_events import Event, all_events
from tests.tokenization.notation.musicxml.test_changing import elements
from tests.tools.options import options
from tests.tools.page.jobs import WIDTH, cells, read_by_others, reasons
from tests.tools.page.own_files import DRUMS, OwnFile, own_files
from tokenization.changes import changes_from
from tokenization.edit import NotKept
from tokenization.formats import changed, read_file

OF_DRUMS = "drums are not transposed, and have no other instrument"
BAR = 2  # from 0: the bar that is edited
Row = list[int]


@dataclass(frozen=True)
class Place:
    """What an edit of a file names, in ticks of the file."""

    beat: int
    start: int  # of the bar
    stop: int
    row: Row  # a note in this bar
    channel: int  # of its track, and the name of that
    name: str


# Whether an event that is gone (or, if `is_new`, has come) is what an edit was to change.
Meant = Callable[[Place, Event, bool], bool]


def _near(place: Place, event: Event) -> bool:
    """Return whether an event is the note that is edited, which a language can have rounded by half a step."""
    is_alike = event.kind == "note" and event.what[0] == place.row[2]
    return is_alike and abs(event.tick - place.row[0]) <= place.beat / 20


def _of(*kinds: str) -> Meant:
    return lambda _place, event, _is_new: event.kind in kinds


def _note(*, new: bool = True) -> Meant:
    """Return the test for the edited note, which can have changed in any way."""

    def is_meant(place: Place, event: Event, is_new: bool) -> bool:
        if not is_new:
            return _near(place, event)
        return new and event.kind == "note" and event.channel == place.channel

    return is_meant


def _own(place: Place, event: Event, _is_new: bool) -> bool:
    return event.channel == place.channel or event.track == place.name


NOTE = _note()


# By name: the change of the file, what the page does, and what is meant to change.
@dataclass(frozen=True)
class Kind:
    """A kind of edit."""

    change: Callable[[Place], list[dict[str, Any]]]
    script: str = ""  # on the page, an expression for [the edited piece, its changes]
    settings: tuple[tuple[str, float], ...] = ()  # of playback, saved as heard
    mix: str = ""  # change of the mix, saved as heard
    save: str = "MIDI"
    meant: Meant = NOTE
    cuts: bool = False  # bars
    loose: tuple[
        str, ...
    ] = ()  # what can be another for all events: their chunk, the name of their track


def _row(place: Place, *changes: float) -> dict[str, Any]:
    after = [value + by for value, by in zip(place.row, [*changes, 0, 0, 0, 0], strict=False)]
    return {"change": "notes", "rows": [[place.row, after]]}


KINDS: dict[str, Kind] = {
    "insert": Kind(lambda p: [{"change": "notes", "rows": [[None, [p.start, p.beat, 90, 77, p.row[4]]]]}],
                   "[edits.drawn(piece, start, beat, 90, track), null]"),
    "delete": Kind(lambda p: [{"change": "notes", "rows": [[p.row, None]]}], "[edits.removed(piece, [note]), null]",
                   meant=_note(new=False)),
    "move": Kind(lambda p: [_row(p, p.beat)], "[edits.moved(piece, [note], beat, 0), null]"),
    "change pitch": Kind(lambda p: [_row(p, 0, 0, 1)], "[edits.moved(piece, [note], 0, 1), null]"),
    "lengthen": Kind(lambda p: [_row(p, 0, p.beat // 4)], "[edits.lengthened(piece, [note], beat / 4), null]"),
    "velocity": Kind(lambda p: [_row(p, 0, 0, 0, 9)], "[edits.louder(piece, [note], 9), null]"),
    "delete bars": Kind(lambda p: [{"change": "cut", "start": p.start, "stop": p.stop}],
                        "[without(piece, bar, bar + 1), [cutOf(piece, bar, bar + 1)]]", cuts=True),
    "transpose": Kind(lambda p: [{"change": "transpose", "semitones": 2}], settings=(("transpose", 2),),
                      save="MIDI as heard", meant=_of("note", "key_signature", "marker", "cue_marker")),
    "tempo": Kind(lambda p: [{"change": "tempo", "times": 1.5}], settings=(("tempo", 1.5),), save="MIDI as heard",
                  meant=_of("set_tempo")),
    "swing": Kind(lambda p: [_row(p, p.beat / 7)], settings=(("swing", 66), ("humanise", 50)), save="MIDI as heard",
                  meant=_of("note")),
    "mute": Kind(lambda p: [{"change": "drop", "tracks": [p.row[4]]}], mix="mute: true", save="MIDI as heard",
                 meant=_own, loose=("chunk",)),
    "instrument": Kind(lambda p: [{"change": "program", "track": p.row[4], "program": 71}], mix="program: 71",
                       save="MIDI as heard", meant=_of("program_change")),
    "volume": Kind(lambda p: [{"change": "volume", "track": p.row[4], "volume": 70}], mix="volume: 70",
                   save="MIDI as heard", meant=_of("control_change")),
    "pedal": Kind(lambda p: [{"change": "controllers", "track": p.row[4],
                             "events": [[p.start, 64, 127], [p.stop, 64, 0]]}], meant=_of("control_change")),
    "key": Kind(lambda p: [{"change": "key", "fifths": -4, "start": p.start}], meant=_of("key_signature")),
    "metre": Kind(lambda p: [{"change": "metre", "beats": 2, "unit": 2, "start": p.start}],
                  meant=_of("time_signature")),
    "name": Kind(lambda p: [{"change": "name", "track": p.row[4], "name": "New"}], meant=_of("track_name"),
                 loose=("chunk", "track")),
}  # fmt: skip
ON_PAGE = [name for name, kind in KINDS.items() if kind.script or kind.settings or kind.mix]
# Edit the note and save; the piece is that of the page, so its ticks and tracks are those of its language.
EDIT = """async (bar) => {
  const { app, desk } = musicgen, { piece } = desk.current;
  const { assets } = JSON.parse(document.querySelector("#mg-facts").textContent);
  const load = (name) => import(new URL(`${assets}/music/${name}.js`, document.baseURI));
  const edits = await load("edits"), { without, cutOf, rowsOf } = await load("piece");
  const start = piece.lines[bar], stop = piece.lines[bar + 1], beat = piece.ticksPerBeat, rows = rowsOf(piece);
  const isIn = ([onset, , , , track]) => onset >= start && onset < stop && !piece.tracks[track].drum;
  const inside = rows.findIndex(isIn);
  const note = inside >= 0 ? inside : rows.findIndex(([onset]) => onset >= start), track = rows[note][4];
  const [made, changes] = SCRIPT;
  if (made) app.edit(made, "an edit", changes ? { changes } : {});
  return { row: rows[note], name: piece.tracks[track].name, beat, start, stop, track, lost: desk.current.lost };
}"""


@dataclass(frozen=True)
class Outcome:
    """What an edit did to a file."""

    changed: int = 0  # outside
    not_kept: str = ""
    read: str = ""
    failed: str = ""

    @property
    def cell(self) -> str:
        """The outcome in the table."""
        return "failed" if self.failed else "notes" if self.not_kept else str(self.changed)


def place_in(data: bytes, file: OwnFile) -> Place:
    """Return a note in a bar of a file, pitched if there is one."""
    score = read_file(data, suffix="." + file.name.rpartition(".")[2])
    bar = file.bar or 4 * score.ticks_per_beat
    rows = [[int(value) for value in row] for row in zip(*score.notes.columns, strict=True)]
    inside = [row for row in rows if BAR * bar <= row[0] < (BAR + 1) * bar]
    pitched = [row for row in inside if not score.tracks[row[4]].is_drum] or inside
    track = pitched[0][4]
    channel = _channel(data, pitched[0]) if file.name.endswith(".mid") else 0
    name = score.tracks[track].name
    return Place(score.ticks_per_beat, BAR * bar, (BAR + 1) * bar, pitched[0], channel, name)


def _channel(data: bytes, row: Row) -> int:
    return next(
        event.channel for event in all_events(data)
        if event.kind == "note" and (event.tick, event.what[0]) == (row[0], row[2])
    )  # fmt: skip


def outside(file: OwnFile, kind: Kind, place: Place, saved: bytes) -> int:
    """Return how many events, or elements, were changed outside an edit; raises ValueError if it changed nothing."""
    if saved == file.data:
        raise ValueError("the file is as it was")
    if file.name.endswith(".musicxml"):
        return _elements_outside(file.data, saved, kind)
    old, new = (Counter(all_events(data)) for data in (file.data, saved))
    if kind.cuts:
        by, here = place.stop - place.start, place.start
        old = Counter(
            {_cut(event, place, by): n for event, n in old.items() if not _inside(event, place)}
        )
        # What was in force in these bars is stated after them.
        new = Counter({event: n for event, n in new.items() if event.tick != here or event in old})
        return (old - new).total() + (new - old).total()
    if kind.loose:
        blank = {"chunk": 0, "track": ""}
        same = {name: blank[name] for name in kind.loose}
        old, new = (
            Counter(event._replace(**same) for event in one.elements()) for one in (old, new)
        )
    gone, come = (old - new).elements(), (new - old).elements()
    return sum(not kind.meant(place, event, False) for event in gone) + sum(
        not kind.meant(place, event, True) for event in come
    )


def _inside(event: Event, place: Place) -> bool:
    return place.start <= event.tick < place.stop


def _cut(event: Event, place: Place, by: int) -> Event:
    if event.kind == "note":
        pitch, velocity, end = event.what
        later = event.tick >= place.stop
        end = end - by if later else min(end, place.start)
        return event._replace(tick=event.tick - by * later, what=(pitch, velocity, end))
    return event._replace(tick=event.tick - by * (event.tick >= place.stop))


def _elements_outside(data: bytes, saved: bytes, kind: Kind) -> int:
    """Return the elements that are gone and are no notes, or that are in other bars."""
    old, new = elements(data), elements(saved)
    if kind.cuts:
        old = Counter({
            (part, bar - (bar > BAR), tag, text): count for (part, bar, tag, text), count in old.items() if bar != BAR
        })  # fmt: skip
        return (old - new).total()
    whole = {"transpose": {"note", "harmony", "attributes"}, "velocity": {"note"}}
    change = str(kind.change(Place(1, 0, 1, [0, 1, 60, 60, 0], 0, ""))[0]["change"])
    meant = whole.get(change, {"note"} if change == "notes" else {"attributes", "direction"})
    return sum(count for one, count in (old - new).items() if one[2] not in meant)


# By the function of the command, and on the page.


def by_command(kind: Kind, file: OwnFile) -> Outcome:
    """Change a file as `musicgen edit` does, and compare the result."""
    suffix = "." + file.name.rpartition(".")[2]
    place = place_in(file.data, file)
    if place.channel == DRUMS and kind is KINDS["transpose"]:
        return Outcome(not_kept=OF_DRUMS)
    plain = json.loads(json.dumps(kind.change(place)))
    try:
        saved = changed(file.data, changes_from(plain), suffix=suffix)
    except NotKept as error:
        return Outcome(not_kept=str(error))
    except ValueError as error:
        return Outcome(not_kept=str(error))
    return compared(file, kind, place, saved)


def compared(file: OwnFile, kind: Kind, place: Place, saved: bytes) -> Outcome:
    """Compare a saved file with the original."""
    try:
        read = read_by_others(saved, file.name.endswith(".musicxml"))
        return Outcome(changed=outside(file, kind, place, saved), read=read)
    except Exception as error:
        return Outcome(failed=f"{type(error).__name__}: {error}"[:300])


def on_page(page: Page, kind: Kind, file: OwnFile) -> Outcome:
    """Open a file, edit it, save the result, and compare it."""
    before = page.evaluate("musicgen.desk.open.current")
    send(page, file.name, file.data)
    page.wait_for_function(
        "(id) => musicgen.desk.current && musicgen.desk.open.current !== id", arg=before
    )
    rest(page)
    if file.name == "drums only.mid" and kind in (KINDS["transpose"], KINDS["instrument"]):
        return Outcome(not_kept=OF_DRUMS)
    told = page.evaluate(EDIT.replace("SCRIPT", kind.script or "[null]"), BAR)
    rest(page)
    for name, value in kind.settings:
        playback(page, name, value)
    if kind.mix:
        remix = f"({{ desk }}, track) => desk.remix(desk.current, track, {{ {kind.mix} }})"
        page.evaluate(f"(track) => ({remix})(musicgen, track)", told["track"])
    is_xml = file.name.endswith(".musicxml") and kind.save == "MIDI"
    try:
        saved = downloaded(page, "Score (MusicXML)" if is_xml else kind.save, ".mg-stage")
    except Exception as error:
        return Outcome(not_kept=page.evaluate("musicgen.app.trouble") or str(error)[:200])
    if told["lost"] or (file.name.endswith((".abc", ".musicxml")) and not is_xml):
        return Outcome(not_kept="ABC is not written, and a score as heard is saved as MIDI")
    return compared(file, kind, _place_of(file, told), saved)


def _place_of(file: OwnFile, told: dict[str, Any]) -> Place:
    """Return what the page has edited, in ticks of the file."""
    if not file.bar:
        return Place(1, 0, 1, told["row"], 0, told["name"])
    scale = file.beat / told["beat"]
    onset, length, pitch, velocity, _ = told["row"]
    events = [
        event
        for event in all_events(file.data)
        if event.kind == "note" and event.what[0] == pitch
        if abs(event.tick - onset * scale) <= file.beat / 20
    ]
    channel, name = events[0].channel, events[0].track
    row = [round(onset * scale), round(length * scale), pitch, velocity, 0]
    start, stop = (round(told[line] * scale) for line in ("start", "stop"))
    return Place(file.beat, start, stop, row, channel, name)


# The tables.


def table(title: str, found: dict[tuple[str, str], Outcome]) -> str:
    """Return the outcomes by edit and file as text."""
    lines = [title, *cells(found)]
    lines += reasons("not kept", {key: one.not_kept for key, one in found.items()})
    lines += reasons("failed", {key: one.failed for key, one in found.items()})
    done = [one for one in found.values() if one.read]
    notes = sum(bool(one.not_kept) for one in found.values())
    by = ", ".join(f"{n} by {name}" for name, n in Counter(one.read for one in done).items())
    lines += wrap(
        f"{len(found)} edits: {len(done)} saved in the file, {notes} as notes, "
        f"{len(found) - len(done) - notes} failed; {sum(one.changed for one in done)} events changed "
        f"outside; read again: {by}",
        WIDTH,
    )
    return "\n".join(lines)


def command_table(kinds: list[str], files: dict[str, OwnFile]) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes by the command's function."""
    return {
        (kind, name): by_command(KINDS[kind], file)
        for kind in kinds
        for name, file in files.items()
    }


def page_table(
    address: str, kinds: list[str], files: dict[str, OwnFile]
) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes on the page."""
    found: dict[tuple[str, str], Outcome] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for name, file in files.items():
            page = browser.new_page(reduced_motion="reduce")
            page.set_default_timeout(WAIT)
            page.goto(address)
            page.wait_for_function("() => window.musicgen?.desk.current")
            for kind in kinds:
                found[kind, name] = on_page(page, KINDS[kind], file)
            page.close()
        browser.close()
    return {(kind, name): found[kind, name] for kind in kinds for name in files}


def main() -> int:
    """Print the tables."""
    given = options(__doc__, model=MODEL, only="", files=0)
    outcomes = list[Outcome]()
    files = dict([*own_files().items()][: given.files or None])
    if given.only != "page":
        found = command_table([*KINDS], files)
        outcomes += found.values()
        print(table("command and library", found), flush=True)
    if given.only != "command":
        with serving("--model", given.model) as address:
            found = page_table(address, ON_PAGE, files)
        outcomes += found.values()
        print(table("page", found))
    return int(any(one.failed or one.changed for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
