"""Without an extra, commands that do not need it work, and the others say what to install."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app import cli
from app.cli import EXTRAS, missing
from tests.tools.house import ROOT

TRIO = ROOT / "app" / "examples" / "trio-jazz.mid"
# Processes that a command starts import the program, too, and then hide the same packages.
PROGRAM = """
import sys
hidden = sys.argv.pop(1).split(",")
sys.modules.update(dict.fromkeys(hidden))
from app.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""


def packages(extra: str) -> list[str]:
    return [package for package, other in EXTRAS.items() if other == extra]


def run(folder: Path, hidden: list[str], *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder without some packages."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), ",".join(hidden), *map(str, words)]
    around = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("train pop-piano-sine-spe", "`musicgen train` needs torch"),
        ("compare pop-piano-sine-spe pop-piano-ape", "`musicgen compare` needs pandas"),
        ("evaluate form ensemble --data mine", "`musicgen evaluate form` needs torch"),
        ("bench", "`musicgen bench` needs torch"),
        ("benchmark addition", "`musicgen benchmark` needs torch"),
    ],
)
def test_commands_that_compute_say_what_they_need(words: str, needs: str, tmp_path: Path):
    done = run(tmp_path, packages("train"), *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'musicgen: {needs}, which is not installed: pip install -e ".[train]"\n'


def test_data_are_prepared_and_pieces_tokenized_without_the_extras(tmp_path: Path):
    hidden = [*EXTRAS]
    (tmp_path / "mine").mkdir()
    for piece in TRIO.parent.glob("*.mid"):
        (tmp_path / "mine" / piece.name).write_bytes(piece.read_bytes())
    for words in (
        ("data", "midi", "mine", "prepared", "--workers", 1),
        ("data", "inspect", "prepared"),
        ("tokenize", TRIO, "--language", "groove"),
        ("evaluate", "style", TRIO, TRIO),
    ):
        done = run(tmp_path, hidden, *words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        assert done.stdout


def test_the_page_says_what_it_needs(tmp_path: Path):
    done = run(tmp_path, packages("app"), "app", "--no-browser")
    assert done.returncode == 2
    assert "`musicgen app` needs " in done.stderr
    assert done.stderr.endswith('pip install -e ".[app]"\n')
    assert done.stderr.count("\n") == 1


def test_an_installed_program_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    error = ModuleNotFoundError("no scipy.stats", name="scipy.stats")
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "app" / "cli.py"))
    said = missing(error, ["evaluate", "--json", "form", "mine"])
    assert said == (
        "`musicgen evaluate form` needs scipy, which is not installed: "
        'pip install "symbolic-musicgen[train]"'
    )


def test_the_extras_of_the_program_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    with_others = {"fastapi": "gradio", "sklearn": "scikit-learn"}
    for package, extra in EXTRAS.items():
        name = with_others.get(package, package)
        assert any(line.startswith(f"{name}>=") for line in extras[extra]), package
