"""Run the commands and calls of the README, the pages in docs/, and the tables of evaluation/README.md.

Commands are taken from the pages word for word. Data and models are small: where the README trains the paper's model,
its configuration is read and then reduced; workloads of the bench are requested but not measured.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import app.commands.train
import evaluation.bench
import evaluation.benchmarks.tasks
from app.cli import COMMANDS, build_parser, main
from app.commands.evaluate.evaluate import EVALUATIONS
from evaluation.bench import WORKLOADS, Workload
from evaluation.benchmarks.tasks import Recipe
from tests.app.web.browser import serving
from tests.training.data.mma_stand_in import install as install_mma
from tests.training.data.sources import on_disk as disk
from training.config import RunConfig
from training.data.sources import SOURCES

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/training.md", "docs/data.md", "docs/api.md")
README = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
MORE = (ROOT / "evaluation" / "README.md").read_text(encoding="utf-8")
HELD_OUT_SONG = 57  # whose name falls among those for validation


def section(title: str) -> str:
    """Return the text under a heading."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def block_lines(text: str) -> list[str]:
    """Return the lines of indented blocks without comments."""
    lines = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return [line.partition(" #")[0].strip() for line in lines]


def quoted(text: str) -> list[str]:
    """Return the inline code of a page, outside fenced blocks."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [" ".join(words.split()) for words in re.findall(r"`([^`]+)`", prose)]


TABLE = [
    cell
    for line in MORE.splitlines()
    if line[:1] == "|"
    for cell in quoted(line)
    if cell.partition(" ")[0] in ("musicgen", "make", "python")
]
RUN = [*block_lines(README), *TABLE]
PIECE = block_lines(section("Make a piece"))
SHOWN = block_lines(section("Use it as a researcher"))
RESEARCH = [line for line in SHOWN if not line.startswith("musicgen bench")]


def of(beginning: str, among: list[str] = RUN) -> list[str]:
    """Return the commands that start with some words."""
    return [line for line in among if f"{line} ".startswith(f"{beginning} ")]


def expanded(line: str) -> list[str]:
    """Return the arguments of a `musicgen` command as the shell expands them."""
    words = []
    for word in shlex.split(line):
        is_pattern = "*" in word and f"'{word}'" not in line
        words += sorted(glob.glob(word)) if is_pattern else [word]
    assert words[0] == "musicgen"
    return words[1:]


def musicgen(line: str) -> None:
    """Run a command of the README in this process."""
    assert main(expanded(line)) == 0, line


def small(config: RunConfig) -> RunConfig:
    """Return a configuration that trains a tiny model with the same encoding for two steps."""
    size = {"layers": 1, "width": 32, "heads": 4, "feedforward": 24, "chunk": 8}
    return replace(
        config,
        model=None if config.model is None else {**config.model, **size, "preset": "tiny"},
        data=replace(config.data, length=32, batch=2),
        optimiser=replace(config.optimiser, steps=2, epochs=None, warmup=1),
        validation=replace(config.validation, every=2, length=48, sequences=2, batch=2),
        device=replace(config.device, accelerator="cpu"),
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with the files that the README's commands assume: a song and raw data."""
    monkeypatch.chdir(tmp_path)
    train = app.commands.train.train
    for module in ("train", "compare"):
        name = f"app.commands.{module}.train"
        monkeypatch.setattr(name, lambda config, **given: train(small(config), **given))
    shutil.copy(ROOT / "app" / "examples" / "piano-g-minor.mid", "song.mid")
    shutil.copy(ROOT / "app" / "examples" / "trio-disco.mid", "band.mid")
    disk.pop909_song(disk.pop909(Path("POP909")), HELD_OUT_SONG, bars=24)
    disk.groove(Path("GROOVE"))
    return tmp_path


def test_every_command_can_be_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output").mkdir()
    for name in ("song.mid", "output/song.mid"):
        (tmp_path / name).touch()
    assert len(RUN) == len(set(RUN)) >= 18
    assert {*RUN} == {*of("musicgen"), *of("make"), *of("python -m")}
    assert {*PIECE, *RESEARCH} < {*RUN}
    for line in of("musicgen"):
        words = expanded(line)
        build_parser(*words[:2]).parse_args(words)
    assert all(find_spec(line.split()[2]) for line in of("python -m"))


@pytest.mark.parametrize("line", of("make"))
def test_make_targets_exist(line: str):
    done = subprocess.run([*shlex.split(line), "-n"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"app": "musicgen app", "page": "musicgen page", "test": "-m pytest"}[
        line.split()[1]
    ] in done.stdout


def test_the_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(
        r"^\| `([\w-]+)` \| ", README.partition("| extra |")[2].partition("\n\n")[0], re.M
    )
    assert {*listed} == {*project["optional-dependencies"]} - {"gpu"}  # a former name


@pytest.mark.long
def test_making_a_piece(place: Path, capsys: pytest.CaptureFixture[str]):
    for line in PIECE:
        musicgen(line)
    assert "ensemble (the default)" in capsys.readouterr().out
    assert list((place / "output").glob("band.accompany_0.mid"))
    for take in range(3):
        names = (f"song.cont_{take}", f"song.prompt_cont_{take}")
        assert all((place / "output" / f"{n}{e}").exists() for n in names for e in (".mid", ".wav"))


@pytest.mark.long
def test_from_raw_data_to_a_report(place: Path, monkeypatch):
    install_mma(place, monkeypatch)
    (place / "output").mkdir()
    shutil.copy("song.mid", "output/another.mid")
    disk.midi_folder(Path("mine"), 12)
    assert main(["data", "midi", "mine", "data/mine", "--validation", "0.4"]) == 0
    assert main(["data", "groove", "GROOVE", "data/groove"]) == 0
    for line in RESEARCH:
        musicgen(line)
    for name in ("pop-piano-sine-spe", "finetune"):
        assert (place / "runs" / name / "model" / "model.safetensors").exists()
    found = json.loads((place / "report" / "results.json").read_text(encoding="utf-8"))
    losses = found["experiments"][0]
    assert losses["kind"] == "extrapolation"
    assert losses["models"][0]["model"] == "pop-piano-sine-spe"
    assert list((place / "grooves").glob("*/own*.mid"))


@pytest.mark.long
@pytest.mark.parametrize("line", of("musicgen benchmark"))
def test_the_benchmarks_print_their_tables(line: str, place: Path, monkeypatch, capsys):
    """Models train for two steps on a few examples, with two encodings."""
    read = evaluation.benchmarks.tasks.recipe

    def tiny(name: str) -> Recipe:
        found = read(name)
        sizes = replace(found.data, train=8, test=4, length=16, past=2, sequences=2)
        steps = {**found.optimiser, "steps": 2, "batch": 2}
        return replace(found, data=sizes, optimiser=steps, encodings=("none", "sine_spe"))

    monkeypatch.setattr(evaluation.benchmarks.tasks, "recipe", tiny)
    (place / "texts").mkdir()
    (place / "texts" / "a.txt").write_text("So it goes on and on. " * 1000)
    musicgen(line)
    said = capsys.readouterr().out
    words = {*said.split()}  # column headings are wrapped
    assert {"Liutkus", "et", "al.", "2021:"} <= words or {"Choromanski", "al.", "2023:"} <= words
    assert all(f"\n{name} " in said for name in ("none", "sine_spe"))


@pytest.mark.parametrize("line", of("musicgen bench"))
def test_the_bench_has_the_workloads(line: str, monkeypatch: pytest.MonkeyPatch, capsys):
    """Each workload is requested; its measurement is replaced."""
    asked = []

    def found(name: str) -> dict[str, object]:
        asked.append(name)
        return {"seconds": [1.0], "peak_bytes": 1}

    monkeypatch.setattr(evaluation.bench, "_in_child", found)
    musicgen(line)
    begin = tuple(shlex.split(line)[3:]) or ""
    works = [name for name in WORKLOADS if name.startswith(begin) and not name.endswith("-ft")]
    assert {*works} <= {*asked}
    assert len(capsys.readouterr().out.splitlines()) > len(works)
    assert all(isinstance(WORKLOADS[name], Workload) for name in asked)


def test_commands_named_in_the_text_exist():
    named = [words.split() for words in quoted(README) if words.startswith(("musicgen ", "make "))]
    assert named
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for program, word, *more in named:
        if program == "make":
            assert word in targets
        elif word == "evaluate":
            assert more[0] in EVALUATIONS
        elif word == "data":
            assert more[0] in {*SOURCES, "inspect", "make-groove", "SOURCE"}
        else:
            assert word in {*COMMANDS, "COMMAND"}


@pytest.fixture(scope="module")
def page():
    with serving() as address:
        yield address


@pytest.mark.long
def test_the_page_is_called(page: str, place: Path):
    code, begun = re.findall(r"```python\n(.*?)```", section("Endpoints"), re.S)
    assert code.count("http://127.0.0.1:7860") == 1
    code = code.replace("http://127.0.0.1:7860", page)
    code += f"continued = [files, facts]\n{begun}\nassert len(files) == 1\n"
    code += "import json\nprint('data:', json.dumps(continued))\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files, facts = json.loads(done.stdout.split("data: ")[-1])
    assert [(fact["seed"], fact["prompt_bars"]) for fact in facts] == [(7, [1, 4])] * 2
    assert all(Path(file).read_bytes()[:4] == b"MThd" for file in files)
    names = [Path(file).name for file in files]
    assert names == ["song.prompt_cont_0.mid", "song.prompt_cont_1.mid"]


@pytest.mark.long
def test_music_is_written_in_one_step(page: str, place: Path):
    if shutil.which("curl") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no curl to call with")
    (code,) = re.findall(r"```bash\n(.*?)```", section("In one step"), re.S)
    assert code.count("http://127.0.0.1:7860") == 1
    code = code.replace("http://127.0.0.1:7860", page)
    subprocess.run(["bash", "-c", code], check=True)
    assert Path("new.mid").read_bytes()[:4] == b"MThd"
