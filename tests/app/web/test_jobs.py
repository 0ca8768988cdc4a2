"""Jobs of the page with files of many kinds: what they do not write stays as it is in the saved file."""

import io

import mido
import pytest
from playwright.sync_api import Page

from tests.app.web.hands import fill
from tests.tools.page.jobs import JOBS, changed_events, outcome
from tests.tools.page.own_files import own_files

FEW_FILES = ("pop band", "type 0", "lead sheet")
FEW_JOBS = ("continue", "rewrite bars × parts", "add two parts", "harmonise")
SINGLE = ("piano solo", "drums only", "lead sheet", "jig")  # files of one track
FILES = own_files()


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        *((name, FEW_JOBS) for name in FEW_FILES),
        *(pytest.param(name, (*JOBS,), marks=pytest.mark.long) for name in FILES),
    ],
)
def test_a_job_changes_nothing_else(page: Page, name: str, jobs: tuple[str, ...]):
    fill(page, "variations", 1)
    for job in jobs:
        found = outcome(page, job, FILES[name])
        assert (job, found.failed, found.changed) == (job, "", 0)
        if job == "rewrite bars × parts":
            assert ("one track" in found.refused) == (name in SINGLE)
        elif job == "harmonise":
            assert ("only drums" in found.refused) == (name == "drums only")
        elif job != "add drums":
            assert found.read


def test_changes_elsewhere_are_counted():
    file = FILES["everything"]
    where = {"first": 2, "stop": 4, "names": ["Slap"]}
    assert changed_events(file, file.data, "rewrite bars × parts", where) == []
    renamed = file.data.replace(b"Chorus", b"Bridge")
    other = mido.MidiFile(file=io.BytesIO(file.data))
    note = mido.Message("note_on", channel=1, note=99, velocity=9, time=0)
    other.tracks[2].insert(3, note)
    other.tracks[2].insert(4, note.copy(velocity=0, time=0))
    other.save(file=(saved := io.BytesIO()))
    for data, count in ((renamed, 2), (saved.getvalue(), 1)):
        for job in ("rewrite bars × parts", "add bass"):
            assert len(changed_events(file, data, job, where)) == count
