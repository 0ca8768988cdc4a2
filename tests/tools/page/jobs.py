"""Do each job of the page with files of many kinds, in a browser: python -m tests.tools.page.jobs.

Prints a table of jobs × files. A cell is the number of events (of MusicXML, elements) that were changed outside what
the job was to write, in the saved file, or "refused", with the reason below. Every saved file is read by pretty_midi or
music21. The exit code is 1 if a job failed, or changed anything else. --model ensemble composes with the trained model.
"""

from __future__ import annotations

import io
import sys
import warnings
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Protocol

from playwright.sync_api import Page, sync_playwright

from tests.app.web.browser import MODEL, OPTIONS, WAIT, chromium, serving
from tests.app.web.hands import act, begin, choose_bars, downloaded, fill, rest, send
from tests.tokenization.midi.all_events import Event, all_events
from tests.tools.options import options
from tests.tools.page.own_files import BARS, OwnFile, own_files
from tokenization.formats import read_file

# The number of new notes, or of chords if only they are written.
NEW = """() => (({ region, piece }) => region.tracks?.length === 0 ? piece.chords.filter((one) => !one[2]).length
  : Number(document.querySelector(".mg-take .mg-facts").textContent.split(" ")[0]))(musicgen.desk.takes[0])"""
FIRST, LAST = 3, 4  # the bars that are rewritten
NEW_BARS = 2
OVER = """() => (!musicgen.app.composer.busy && musicgen.desk.takes.length > 0) || musicgen.app.trouble !== ''"""
TOUCHED = """() => (({ region: { first, stop, tracks }, piece }) => ({ first, stop,
  names: tracks && tracks.map((index) => piece.tracks[index].name) }))(musicgen.desk.takes[0])"""
COMPARED = (
    "note",
    "direction",
    "barline",
    "harmony",
    "sound",
    "figured-bass",
)  # elements that are compared


WIDTH, FILES_A_LINE = 80, 4  # of the tables


class Refused(Exception):
    """The page refuses a job; the message is its reason."""


@dataclass(frozen=True)
class Outcome:
    """What a job did with a file."""

    refused: str = ""
    changed: int = 0  # events outside what was to be written
    read: str = ""  # by which the saved file was read
    failed: str = ""

    @property
    def cell(self) -> str:
        """The outcome in the table."""
        return "failed" if self.failed else "refused" if self.refused else str(self.changed)


# The jobs, as a user does them.


def press(page: Page, name: str, within: str = "body") -> None:
    """Press a button; raises Refused if it is disabled, with the reason that it gives."""
    button = page.locator(within).get_by_role("button", name=name, exact=True).first
    if button.get_attribute("aria-disabled") == "true":
        raise Refused(button.get_attribute("title") or "no reason")
    button.click()


def go_on(page: Page, *, ends: bool = False) -> None:
    page.get_by_label("Write an ending").set_checked(ends)
    fill(page, "bars", NEW_BARS)
    press(page, "Continue", "#mg-dock")


def rewrite(page: Page) -> None:
    choose_bars(page, FIRST, LAST)
    act(page, "Rewrite")


def rewrite_track(page: Page) -> None:
    choose_bars(page, FIRST, LAST)
    picks = page.locator(".mg-stage .mg-picks button")
    if not picks.first.is_visible():
        raise Refused("the piece has one track, whose bars are rewritten as a whole")
    picks.first.click()
    press(page, "Rewrite 1 track", ".mg-stage")


def add(*names: str) -> Callable[[Page], None]:
    def added(page: Page) -> None:
        press(page, "Add part", ".mg-stage")
        for name in names:
            box = page.locator(".mg-jobs-parts").get_by_label(name, exact=True)
            if box.is_disabled():
                page.keyboard.press("Escape")
                said = page.locator(".mg-jobs .mg-menu-words").text_content() or ""
                raise Refused(said.partition(". ")[2])
            box.check()
        press(page, "Write", ".mg-stage")

    return added


def harmonise(page: Page) -> None:
    press(page, "Harmonise", ".mg-stage")
    page.locator(".mg-jobs .mg-item").first.click()


def new_idea(page: Page) -> None:
    begin(page, "nothing")
    page.wait_for_function("() => !musicgen.desk.current")
    rest(page)
    fill(page, "bars", NEW_BARS)
    press(page, "Generate", "#mg-dock")


JOBS: dict[str, Callable[[Page], None]] = {
    "continue": go_on,
    "end": lambda page: go_on(page, ends=True),
    "rewrite bars": rewrite,
    "rewrite bars × parts": rewrite_track,
    "add drums": add("Drums"),
    "add bass": add("Bass"),
    "add strings": add("Strings"),
    "add two parts": add("Piano", "Guitar"),
    "harmonise": harmonise,
    "new idea": new_idea,
}


def outcome(page: Page, job: str, file: OwnFile) -> Outcome:
    """Open a file, do a job with it, save the result, and compare it with the file."""
    before = page.evaluate("musicgen.desk.open.current")
    send(page, file.name, file.data)
    page.wait_for_function(
        "(id) => musicgen.desk.current && musicgen.desk.open.current !== id", arg=before
    )
    page.evaluate("() => scrollTo(0, 0)")
    rest(page)
    try:
        JOBS[job](page)
        page.wait_for_function(OVER)
    except Refused as refusal:
        return Outcome(refused=str(refusal))
    if trouble := page.evaluate("musicgen.app.trouble"):
        return Outcome(refused=trouble)
    rest(page)
    where = page.evaluate(TOUCHED)
    is_xml = file.name.endswith(".musicxml") and job != "new idea"
    saved = downloaded(page, "Score (MusicXML)" if is_xml else "MIDI")
    try:
        read = read_by_others(saved, is_xml)
        changed = 0 if job == "new idea" else _changed(file, saved, job, where)
        if page.evaluate(NEW) == 0 and not job.startswith("rewrite"):
            return Outcome(failed="nothing was written")
    except Exception as error:
        return Outcome(failed=f"{type(error).__name__}: {error}"[:300])
    return Outcome(changed=changed, read=read)


def read_by_others(data: bytes, is_xml: bool) -> str:
    """Read a saved file with another library, and return its name."""
    if is_xml:
        from music21 import converter

        with warnings.catch_warnings(action="ignore"):  # about drums that it has no name for
            assert converter.parseData(data.decode(), format="musicxml").flatten().notes
        return "music21"
    from pretty_midi import PrettyMIDI

    assert any(one.notes for one in PrettyMIDI(io.BytesIO(data)).instruments)
    return "pretty_midi"


# What was changed outside the bars and tracks of a job.


def _changed(file: OwnFile, saved: bytes, job: str, where: dict) -> int:
    if file.name.endswith(".musicxml"):
        return _changed_elements(file.data, saved, job, where)
    if file.name.endswith(".abc"):  # which is not written: the notes are compared
        old, new = (
            _notes(read_file(data, suffix=suffix))
            for data, suffix in ((file.data, ".abc"), (saved, ".mid"))
        )
        low, high = where["first"] * file.bar / file.beat, where["stop"] * file.bar / file.beat
        return sum(
            (Counter(one for one in old if not low <= one[0] < high) - Counter(new)).values()
        )
    return len(changed_events(file, saved, job, where))


def changed_events(file: OwnFile, saved: bytes, job: str, where: dict) -> list[Event]:
    old, new = all_events(file.data), all_events(saved)
    known, channels = {one.track for one in old}, {one.channel for one in old}
    grows = job in ("continue", "end")
    low = where["first"] * file.bar - file.beat / 48
    high = float("inf") if grows else where["stop"] * file.bar - file.beat / 48
    rewritten = job.startswith("rewrite")
    names = where["names"]

    def is_meant(event: Event, is_new: bool) -> bool:
        inside = low <= event.tick < high
        if event.kind == "marker":
            return (job == "harmonise" or grows) and inside
        if grows:
            return is_new and inside
        adds = is_new and (event.track not in known or event.channel not in channels)
        own = names is None or event.track in names or file.name == "type 0.mid"
        return adds or (rewritten and event.kind == "note" and inside and own)

    gone = [one for one in (old - new).elements() if not is_meant(one, False)]
    return gone + [one for one in (new - old).elements() if not is_meant(one, True)]


def _notes(score) -> list[tuple[float, int]]:
    ticks = score.notes.onset_ticks / score.ticks_per_beat
    return [*zip(ticks.round(3).tolist(), score.notes.pitch.tolist(), strict=True)]


def _changed_elements(old: bytes, new: bytes, job: str, where: dict) -> int:
    """Return the number of elements of the old bars, and outside rewritten ones, that are not in the new score."""
    first, stop = (where["first"], where["stop"]) if job.startswith("rewrite") else (BARS, BARS)
    compared = [tag for tag in COMPARED if (tag, job) != ("harmony", "harmonise")]
    both = []
    for data in (old, new):
        parts = ET.fromstring(data).findall("part")
        both.append(Counter(
            (part.get("id"), number, ET.tostring(element).strip())
            for part in parts for number, bar in enumerate(part.findall("measure")) for element in bar
            if element.tag in compared and not first <= number < stop
        ))  # fmt: skip
    return sum((both[0] - both[1]).values())


# The table.


class Cell(Protocol):
    """What a table has of a row and a file."""

    @property
    def cell(self) -> str: ...


def cells(found: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Return the cells by row and file as lines, of a few files below each other."""
    rows, names = ([*dict.fromkeys(key[place] for key in found)] for place in (0, 1))
    wide, lines = max(map(len, rows)), list[str]()
    for first in range(0, len(names), FILES_A_LINE):
        some = names[first : first + FILES_A_LINE]
        lines += ["", f"{'':<{wide}} " + " ".join(f"{name:>11}" for name in some)]
        lines += [
            f"{row:<{wide}} " + " ".join(f"{found[row, name].cell:>11}" for name in some)
            for row in rows
        ]
    return [*lines, ""]


def reasons(kind: str, said: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the reasons that some cells have, as lines with their rows and files."""
    lines = list[str]()
    for reason in dict.fromkeys(filter(None, said.values())):
        of: dict[str, list[str]] = defaultdict(list)
        for (row, name), one in said.items():
            if one == reason:
                of[name].append(row)
        every = len({row for row, _ in said})
        where = "; ".join(
            f"{name}: {', '.join(some) if len(some) < every else 'all'}"
            for name, some in of.items()
        )
        lines += wrap(f"{kind}: {reason} ({where})", WIDTH, subsequent_indent="  ")
    return lines


def table(found: dict[tuple[str, str], Outcome]) -> str:
    """Return the outcomes by job and file as text."""
    lines = cells(found)
    for kind in ("refused", "failed"):
        lines += reasons(kind, {key: getattr(one, kind) for key, one in found.items()})
    done = [one for one in found.values() if one.read]
    by = Counter(one.read for one in done)
    read = " and ".join(f"{many} by {name}" for name, many in by.items())
    refused = sum(bool(one.refused) for one in found.values())
    changed = sum(one.changed for one in done)
    lines += wrap(
        f"{len(found)} jobs: {len(done)} done, {refused} refused, {len(found) - len(done) - refused} failed; "
        f"{changed} events changed outside; read again: {read}",
        WIDTH,
    )
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    given = options(__doc__, model=MODEL)
    found: dict[tuple[str, str], Outcome] = {}
    with serving("--model", given.model) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        for name, file in own_files().items():
            page = browser.new_page(
                viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
            )
            page.set_default_timeout(WAIT)
            page.goto(address)
            page.wait_for_function("() => window.musicgen?.desk.current")
            fill(page, "variations", 1)
            for job in JOBS:
                found[job, name] = outcome(page, job, file)
            page.close()
        browser.close()
    print(table(found))
    return int(any(one.failed or one.changed for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
