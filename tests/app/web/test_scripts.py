"""The page's scripts that need no page: their tests run in node where there is one, and in the browser."""

import re
import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import Browser

from tests.tools.house import circles
from tokenization.analysis.chords import _SYNONYMS, QUALITIES

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
FLOORS = ("music", "desk", "sound", "roll", "widgets", "page")  # each imports from those before it
MOST_LINES = 500  # of a file
RUN = """async (file) => {
  const { tests } = await import(`/tests/app/web/scripts/${file}.js`), failed = [];
  for (const [name, act] of Object.entries(tests)) {
    try { await act(); } catch (error) { failed.push(`${name}: ${error.message}`); }
  }
  return [Object.keys(tests).length, failed];
}"""


def test_scripts_do_as_they_say_in_node():
    node = shutil.which("node")
    if node is None:  # the browser runs the same tests
        return
    ran = subprocess.run(
        [node, "--test", str(SCRIPTS / "node.mjs")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "# pass 0" not in ran.stdout


def test_scripts_do_as_they_say_in_the_browser(browser: Browser):
    page = browser.new_context().new_page()

    def give(route) -> None:
        path = ROOT / route.request.url.removeprefix("http://localhost/")
        kind = "text/javascript" if path.suffix == ".js" else "text/html"
        body = path.read_text(encoding="utf-8") if path.is_file() else "<p>tests</p>"
        route.fulfill(body=body, content_type=kind)

    page.route("http://localhost/**", give)
    page.goto("http://localhost/")
    for file in ("state", "transport", "music", "app"):
        count, failed = page.evaluate(RUN, file)
        assert count > 1
        assert failed == []
    page.context.close()


def test_chords_have_the_names_that_the_server_reads():
    text = (ROOT / "app/assets/music/chord_names.js").read_text(encoding="utf-8")
    table = text[text.index("SYNONYMS = {") : text.index("};")]
    found = re.findall(r'^  "?([^":]+)"?: "(.*)",$', table, re.M)
    assert len(found) == len(QUALITIES)
    assert dict(found) == _SYNONYMS


def test_no_file_is_long_and_each_says_what_it_holds():
    assets = ROOT / "app" / "assets"
    found = [p for p in assets.rglob("*.js") if "vendor" not in p.parts]
    assert len(found) > 30
    for path in found:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= MOST_LINES, path
        assert lines[0].startswith("// "), path


def test_imports_of_the_page_go_down():
    """From the page to its widgets, to rolls and sound, to the desk, to music; inside a folder in no circle."""
    assets = ROOT / "app" / "assets"
    height = {name: level for level, name in enumerate(FLOORS)}
    for folder, level in height.items():
        arrows: dict[str, set[str]] = {}
        for path in (assets / folder).glob("*.js"):
            found = re.findall(
                r'^import .* from "(\..*?)";', path.read_text(encoding="utf-8"), re.M
            )
            reached = [(path.parent / name).resolve().relative_to(assets) for name in found]
            assert all(height[other.parts[0]] <= level for other in reached), path
            arrows[path.name] = {other.name for other in reached if other.parts[0] == folder}
        assert circles(arrows) == []
