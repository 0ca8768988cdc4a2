"""The page's scripts that do not need a page; their tests run in node, if available, and in the browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.web import page
from app.web.composing.requests import MOST_BARS, MOST_DRAWN, MOST_VARIATIONS
from tests.tools.house import circles

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
ASSETS = ROOT / "app" / "assets"
FLOORS = ("music", "desk", "sound", "roll", "widgets", "page")  # each imports from those before it
MOST_LINES = 500  # per file
RUN = """async (file) => {
  const { tests } = await import(`/tests/app/web/scripts/${file}.js`), failed = [];
  for (const [name, act] of Object.entries(tests)) {
    try { await act(); } catch (error) { failed.push(`${name}: ${error.message}`); }
  }
  return [Object.keys(tests).length, failed];
}"""


@pytest.mark.parametrize("where", ["node", pytest.param("browser", marks=pytest.mark.long)])
def test_scripts(where: str, request: pytest.FixtureRequest):
    node = shutil.which("node") if where == "node" else None
    if node is not None:
        command = [node, "--test", str(SCRIPTS / "node.mjs")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-4000:]
        assert "# pass 0" not in ran.stdout
        return
    page = request.getfixturevalue("browser").new_context().new_page()

    def give(route) -> None:
        path = ROOT / route.request.url.removeprefix("http://localhost/")
        kind = "text/javascript" if path.suffix == ".js" else "text/html"
        body = path.read_text(encoding="utf-8") if path.is_file() else "<p>tests</p>"
        route.fulfill(body=body, content_type=kind)

    page.route("http://localhost/**", give)
    page.goto("http://localhost/")
    for file in (
        "state",
        "transport",
        "music",
        "app",
        "painting",
        "plan",
        "listening",
        "trade",
        "recording",
    ):
        count, failed = page.evaluate(RUN, file)
        assert count > 1
        assert failed == []
    page.context.close()


def test_scripts_load_at_once_wherever_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "vendor" / "worker"
    for name in ("page/main.js", "vendor/lib.js"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("")
    monkeypatch.setattr(page, "ASSETS", folder)
    found = re.findall(r'modulepreload" href="at/([^"]*)', page.html("at", {}))
    assert found == ["page/main.js"]


def test_limits_of_a_project_match_the_servers():
    text = (ASSETS / "desk" / "file.js").read_text(encoding="utf-8")
    limits = {"bars": (1, MOST_BARS), "variations": (1, MOST_VARIATIONS), "draw": (0, MOST_DRAWN)}
    own = (f"\n  {name}: within({a}, {b})," for name, (a, b) in limits.items())
    assert "".join(own) in text


def test_files_are_short_and_imports_go_down():
    """Folders import only from those before them in FLOORS; within a folder there are no cycles."""
    height = {name: level for level, name in enumerate(FLOORS)}
    for folder, level in height.items():
        arrows: dict[str, set[str]] = {}
        for path in (ASSETS / folder).glob("*.js"):
            text = path.read_text(encoding="utf-8")
            assert len(text.splitlines()) <= MOST_LINES, path
            assert text.startswith("// "), path
            found = re.findall(r'^import [^;]* from "(\..*?)";', text, re.M)
            reached = [(path.parent / name).resolve().relative_to(ASSETS) for name in found]
            assert all(height[other.parts[0]] <= level for other in reached), path
            arrows[path.name] = {other.name for other in reached if other.parts[0] == folder}
        assert arrows
        assert circles(arrows) == []
