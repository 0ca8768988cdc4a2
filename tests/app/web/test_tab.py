"""A page without a server does what the server's does, offline too, and says what it cannot do."""

import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app.web.desk import NOT_KEPT
from app.web.folder import SILENT, Made, write
from app.web.offered_models import OfferedModels, example
from app.web.page import YOURS, page_facts
from app.web.tab import Tab
from tests.app.web.browser import MODEL, Server
from tests.app.web.hands import SHOWN, await_end, go_on, send
from tests.app.web.sites import hashes_in, save_small, served, write_site
from tests.evaluation.toys import write_style
from tests.musicgen.kernel.test_same_music import GOLDEN
from tests.tokenization.notation.scores import bars, note, score

JAZZ = example("trio-jazz")
ALARM = "#mg-dock [role=alert]"
BROKEN = "A part of the instrument could not be loaded, or arrived damaged; reload the page"
ASKED = {
    "model": MODEL, "bars": 2, "variations": 2, "sampling": {"seed": 5}, "promptBars": 2, "title": "it",
}  # fmt: skip


def answered(tab: Tab, what: str, wanted: dict, data: bytes = b"", name: str = "") -> list:
    """Return the head of an answer and its parts."""
    head, *parts = tab.ask(what, json.dumps(wanted), data, name)
    return [json.loads(head), *parts]


@pytest.fixture(scope="module")
def tab() -> Tab:
    return Tab(MODEL)


def test_requests_are_answered_in_one_process(tab: Tab):
    head, plain = answered(tab, "open", {"model": MODEL}, JAZZ, "it.mid")
    assert head["status"] == 200
    assert json.loads(plain)["title"] == "it"
    head, *views = answered(tab, "write", {**ASKED, "job": "job"}, JAZZ, "it.mid")
    found = [json.loads(view) for view in views]
    assert [view["state"] for view in found] == ["running"] * (len(found) - 1) + ["done"]
    assert len(found[-1]["takes"]) == 2
    assert answered(tab, "ahead", ASKED, JAZZ, "it.mid") == [{"status": 204, "kind": ""}]
    while tab.work(1):
        pass
    head, written = answered(tab, "score", {}, JAZZ, "it.mid")
    assert (head["status"], written[:5], "xml" in head["kind"]) == (200, b"<?xml", True)


def test_a_request_is_stopped_between_two_views(tab: Tab):
    views = tab.ask("write", json.dumps({**ASKED, "bars": 100, "job": "job"}), JAZZ, "it.mid")
    for _ in range(3):
        next(views)
    answered(tab, "stop", {"job": "job"})
    *_, last = views
    assert json.loads(last)["state"] == "stopped"
    left = tab.ask("write", json.dumps({**ASKED, "bars": 100, "job": "job"}), JAZZ, "it.mid")
    for _ in range(3):
        next(left)
    left.close()
    while tab.work(1):
        pass
    assert tab._composer.requests == 0


@pytest.mark.parametrize(
    ("what", "wanted", "data", "sentence"),
    [
        ("open", {}, b"no music", "“it.mid” is not a MIDI file"),
        ("write", {**ASKED, "bars": 0}, JAZZ, "bars: must be a whole number from 1 to 128."),
    ],
)
def test_a_refusal_is_one_sentence(tab: Tab, what: str, wanted: dict, data: bytes, sentence: str):
    head, plain = answered(tab, what, wanted, data, "it.mid")
    assert head["status"] == 400
    assert json.loads(plain)["detail"].startswith(sentence)


def test_a_file_that_cannot_hold_the_edits_has_a_status_of_its_own(tab: Tab):
    file = score(bars(note("C", 5, 48)))
    edits = {"reading": None, "changes": [{"change": "metre", "beats": 3, "unit": 4}]}
    head, plain = answered(tab, "save", {"edits": edits}, file, "it.musicxml")
    assert head["status"] == NOT_KEPT
    assert "cannot hold the edits" in json.loads(plain)["detail"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return save_small(tmp_path / "small")


def made(folder: Path, model: Path, **more) -> Made:
    """Write a page with stand-ins for Pyodide and numpy."""
    pyodide = {
        "pyodide.asm.wasm": b"p",
        "python_stdlib.zip": packed(**{"io.py": b"", "pdb.py": b""}),
    }
    numpy = packed(**{"numpy/__init__.py": b"", "numpy/f2py/core.py": b"", "LICENSE.txt": b"BSD"})
    given = {"pyodide": pyodide, "numpy": numpy, "soundfont": None, "compiles": False}
    return write(folder, models=[str(model)], **(given | more))


def packed(**files: bytes) -> bytes:
    """Return a zip file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return archive.getvalue()


def unpacked(path: Path) -> list[str]:
    """Return the names in a zip file of a page."""
    return zipfile.ZipFile(io.BytesIO(gzip.decompress(path.read_bytes()))).namelist()


def test_a_folder_has_all_files_that_the_page_names(tmp_path: Path, small: Path):
    folder = tmp_path / "page"
    first = made(folder, small)
    page = (folder / "index.html").read_text(encoding="utf-8")
    facts = json.loads(page.split('id="mg-facts">')[1].split("</script>")[0])
    assert [model["name"] for model in facts["models"]] == ["small"]
    named = [one["address"] for one in facts["program"]["files"]] + [facts["program"]["worker"]]
    kept = json.loads((folder / "sw.js").read_text().split("FILES = ")[1].split(";\n")[0])
    for address in (*named, *kept[1:]):
        assert (folder / address).is_file(), address
    assert first.files == sum(path.is_file() for path in folder.rglob("*"))
    assert "GPL" not in (folder / "LICENCES.txt").read_text()
    assert made(folder, small) == first
    assert page == (folder / "index.html").read_text(encoding="utf-8")  # the same again
    font = tmp_path / "TimGM6mb.sf2"
    font.write_bytes(b"sfbk")
    made(folder, small, soundfont=font)
    assert "GPL-2.0" in (folder / "LICENCES.txt").read_text()
    [newest] = (folder / "musicgen").iterdir()  # only this version
    assert unpacked(newest / "python/python_stdlib.zip.packed") == ["io.py"]
    program = unpacked(newest / "python/program.zip.packed")
    assert {"numpy/__init__.py", "app/web/tab.py", "musicgen/kernel/kernel.wasm"} < {*program}
    assert "numpy/f2py/core.py" not in program
    assert (newest / "python/LICENSE.numpy").read_text() == "BSD"
    assert gzip.decompress((newest / "soundfont.sf2").read_bytes()) == b"sfbk"


def test_a_style_is_offered_and_written_with_its_base(tmp_path: Path, small: Path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    write_style("mine", small)
    players = {one["name"]: one["player"] for one in page_facts(OfferedModels(), "")["models"]}
    assert players["mine"] == YOURS
    assert {*players.values()} == {YOURS, "band"}
    folder = tmp_path / "page"
    made(folder, Path("mine"))
    page = (folder / "index.html").read_text(encoding="utf-8")
    facts = json.loads(page.split('id="mg-facts">')[1].split("</script>")[0])
    assert [(model["name"], model["player"]) for model in facts["models"]] == [("mine", YOURS)]
    files = {one["path"] for one in facts["program"]["files"]}
    weights = {f"musicgen/pretrained/{name}/model.safetensors" for name in ("mine", "small")}
    assert weights < files


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path, small: Path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="has other files; name an empty folder"):
        made(tmp_path, small)
    with pytest.raises(ValueError, match="has no files; name a model"):
        made(tmp_path / "page", Path(MODEL))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_music_is_the_same_in_a_browser_as_on_the_command_line(browser: Browser, tmp_path: Path):
    write_site(tmp_path / "page")
    with served(tmp_path / "page") as address:
        page = browser.new_context().new_page()
        page.goto(f"{address}/LICENCES.txt")
        found = hashes_in(page.evaluate, tmp_path / "page")
        page.context.close()
    assert found == json.loads(GOLDEN.read_text())


def loaded(browser: Browser, address: str, **settings) -> Page:
    """Open a page and wait until a piece is on it."""
    page = browser.new_context(**settings).new_page()
    page.goto(address)
    expect(page.locator(SHOWN)).to_have_text("Piano in C")
    return page


@pytest.mark.long
def test_the_page_works_offline_and_says_when_there_is_a_new_version(
    browser: Browser, tmp_path: Path
):
    model = save_small(tmp_path / "small")
    write_site(tmp_path / "page", "--model", model, "--no-soundfont")
    with served(tmp_path / "page") as address:
        page = loaded(browser, address)
        page.wait_for_function("() => navigator.serviceWorker.controller")
        page.context.set_offline(True)
        page.reload()
        expect(page.locator(SHOWN)).to_have_text("Piano in C")
        assert "numpy: BSD" in page.evaluate("async () => (await fetch('LICENCES.txt')).text()")
        page.locator(".mg-stage .mg-menu > button", has_text="Save").click()
        wav = page.get_by_role("button", name="WAV", exact=True)
        expect(wav).to_be_disabled()
        expect(wav).to_have_attribute("title", SILENT)
        page.keyboard.press("Escape")
        go_on(page, bars=1)
        await_end(page)
        page.evaluate("() => musicgen.store.save()")
        page.context.set_offline(False)
        write_site(tmp_path / "page", "--model", save_small(tmp_path / "smaller"), "--no-soundfont")
        page.evaluate("async () => (await navigator.serviceWorker.getRegistration()).update()")
        page.get_by_role("button", name="Reload").click()
        page.wait_for_function("() => window.musicgen?.app.facts.models[0].name === 'smaller'")
        expect(page.locator(".mg-take")).to_have_count(1)  # the project is still there
        page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("begins", ["server", "site"])
def test_a_project_opens_in_either_page(browser: Browser, server: Server, site: str, begins: str):
    addresses = [server.address, site]
    first, second = addresses if begins == "server" else reversed(addresses)
    page, other = (loaded(browser, at, service_workers="block") for at in (first, second))
    go_on(page, bars=4)  # an untrained model can leave a bar silent, and silence cannot be kept
    await_end(page)
    page.locator(".mg-desk-menu > button").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the project").click()
    send(other, "its.musicgen", Path(download.value.path()).read_bytes())
    expect(other.locator(".mg-take")).to_have_count(1)
    notes = "musicgen.desk.takes.map(({ piece }) => [...piece.notes])"
    assert other.evaluate(notes) == page.evaluate(notes)
    other.locator(".mg-take .mg-further").click()
    go_on(other, bars=1)
    await_end(other)
    for one in (page, other):
        one.context.close()


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of an untrained model, without a soundfont."""
    folder = tmp_path_factory.mktemp("silent")
    write_site(folder / "page", "--model", save_small(folder / "small"), "--no-soundfont")
    return folder / "page"


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("program.zip.packed", "damaged"),
        ("program.zip.packed", "cut"),
        ("python_stdlib.zip.packed", "missing"),
        ("pyodide.asm.wasm", "damaged"),
        ("pyodide.asm.wasm", "missing"),
        ("pyodide.mjs", "missing"),
    ],
)
def test_a_fault_at_the_start_is_said(
    browser: Browser, tmp_path: Path, silent: Path, part: str, fault: str
):
    shutil.copytree(silent, tmp_path / "page")
    [found] = (tmp_path / "page").rglob(part)
    data = bytearray(found.read_bytes())
    data[len(data) // 2] ^= 64
    if fault == "missing":
        found.unlink()
    else:
        found.write_bytes(data if fault == "damaged" else data[:-1000])
    page = browser.new_context(service_workers="block").new_page()
    with served(tmp_path / "page") as address:
        page.goto(address)
        expect(page.locator(ALARM)).to_contain_text(BROKEN)
        page.context.close()
