"""The blind comparison: anonymous sides, a stored choice, and a file for the evaluation."""

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from app.cli import main
from tests.app.web.browser import MODEL
from tests.app.web.hands import await_end, go_on
from tests.app.web.test_page import checked


def test_compare_blind(page: Page, tmp_path: Path, capsys):
    opener = page.get_by_role("button", name="Compare blind")
    page.evaluate(
        "() => musicgen.desk.choose(8)"
    )  # of 16 bars, so that there is a real continuation
    page.evaluate("() => musicgen.desk.set({ seed: 9, newSeed: false })")  # a seed that gives notes
    go_on(page, bars=4)
    await_end(page)
    opener.click()
    box = page.get_by_role("dialog", name="Compare blind")
    better = box.get_by_role("button", name="A is better")
    expect(box).not_to_contain_text("take 1")
    assert not checked(page, lambda: box.get_by_label("Play A").click())
    expect(page.locator("#mg-dock .mg-dock-title")).to_have_text("A")  # anonymous there, too
    expect(better).to_be_disabled()
    box.get_by_label("Play B").click()
    better.click()
    expect(box.get_by_role("status")).to_contain_text("take 1")
    with page.expect_download() as download:
        box.get_by_role("button", name="Download choices (1)").click()
    file = tmp_path / "listening.json"
    file.write_bytes(Path(download.value.path()).read_bytes())
    [choice] = json.loads(file.read_text())["choices"]
    assert {choice["A"]["source"], choice["B"]["source"]} == {MODEL, "real"}
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    assert main(["evaluate", "listening", str(file)]) == 0
    assert "/ real" in capsys.readouterr().out
