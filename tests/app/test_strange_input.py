"""Files, options and models that no honest hand made: a sentence, exit code 2, and nothing written."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.cli import main
from musicgen.loading import load
from musicgen.storage.checkpoint import Card, save
from tests.training.makers import prepared_set

ROOT = Path(__file__).parent.parent.parent
DEEP = "[" * 200_000
BRACKETS = "[" * 501
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}]\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)


def short(text: str) -> str:
    """Return a name for a case."""
    return ascii(text[:12])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made = load("untrained:tiny")
    card = Card(name="x", language=made.language.spec(), trained_length=64)
    save(tmp_path / "model", made.performer, card)
    return tmp_path / "model"


def change(model: Path, part: str, **values: object) -> None:
    path = model / "config.json"
    content = json.loads(path.read_text())
    content[part].update(values)
    path.write_text(json.dumps(content))


def refused(words: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the sentence that a command is refused with."""
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    assert lines[-1].startswith("musicgen: ")
    assert len(lines[-1]) < 1200
    assert said.out == ""
    return lines[-1]


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 3000}, {"layers": 10**9}, {"layers": 5}, {"width": 1 << 19}, {"feedforward": 10**12},
        {"feedforward": 1 << 20}, {"vocabulary_size": 1 << 20}, {"heads": 128}, {"chunk": 10**12},
        {"features": {"name": "favor", "features": 1 << 40}}, {"layers": True}, {"layers": 1e300}, {"layers": None},
        {"position": {"name": "sine_spe", "realisations": 1 << 50}}, {"initial_deviation": "wide"},
        {"dropout": 10**400}, {"initial_deviation": 10**400}, {"features": {"name": "favor", "features": 10**400}},
        {"features": {"name": "favor", "features": 1 << 20}},
        {"position": {"name": "sine_spe", "sines": 1 << 20}},
        {"position": {"name": "sine_spe", "realisations": 1 << 20}},
        {"position": {"name": "sine_spe", "sines": 1 << 30}}, {"position": {"name": "learned", "max_length": 1 << 40}},
        {"position": {"name": "learned", "max_length": 1 << 20}},
    ],
)  # fmt: skip
def test_sizes_are_compared_before_memory_is_taken(sizes: dict, model: Path, capsys, monkeypatch):
    change(model, "model", **sizes)
    monkeypatch.setattr("musicgen.storage.checkpoint.Performer", _small_only)
    refused(["generate", "--model", model, "--tokens", 9, "-o", model / "out"], capsys)
    assert not (model / "out").exists()


def _small_only(config, seed):
    """Make a model, if it is of a size at which nothing can happen."""
    from musicgen.model.performer import Performer

    sizes = config.layers * config.width * max(config.feedforward, config.features.features)
    assert sizes < 1 << 22, "memory is taken unseen"
    numbers = [value for value in vars(config.position).values() if isinstance(value, int)]
    assert max(numbers, default=0) < 1 << 12, "memory is taken unseen"
    return Performer(config, seed)


@pytest.mark.parametrize("longest", ["abc", [1.5], {"a": 1}, [[1]], 7, ["x"]])
def test_what_a_card_says_of_lengths_is_checked(longest: object, model: Path, capsys):
    change(model, "card", training={"longest_ticks": longest})
    refused(["generate", "--model", model, "--tokens", 9, "-o", model / "out"], capsys)


@pytest.mark.parametrize("longest", [[], [5], [0, 1, 1], [1, 2, 3, 4], [10**30] * 3])
def test_a_card_bounds_the_notes_of_each_part_or_is_refused(longest: list, model: Path, capsys):
    made = load("untrained:tiny:groove")
    card = Card(name="x", language=made.language.spec(), trained_length=64)
    save(model, made.performer, card)
    change(model, "card", training={"longest_ticks": longest})
    assert "the longest notes" in refused(
        ["generate", "--model", model, "--tokens", 9, "-o", model / "out"], capsys
    )


def test_a_card_cannot_bound_notes_where_the_language_does_not(model: Path, tmp_path: Path):
    change(model, "card", training={"longest_ticks": [10**30]})
    song = ROOT / "tests" / "seeds" / "pop909_001.mid"
    words = ["continue", str(song), "--model", str(model), "--tokens", "40", "-o", str(tmp_path)]
    assert main(words) == 0


@pytest.mark.parametrize(
    "text", [DEEP, '{"card":' * 5000, "null", "[]", '{"card": {"language": []}}', "\ud800", "1e999"]
)
def test_a_config_that_is_none_is_named(text: str, model: Path, capsys):
    (model / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    for words in (
        ["models", model],
        ["generate", "--model", model],
        ["app", "--model", model, "--no-browser"],
    ):
        assert "config.json" in refused(words, capsys)


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "{a: " * 100_000,
        BRACKETS,
        BOMB,
        "a: [",
        "- 1",
        "run: 2026-99-99",
        "\x00",
        "run: !!python/name:os.system",
        "run: !!bool maybe",
        "run: !!timestamp today",
        "run: !!int ''",
        "base: nothing here/" + "a" * 5000,
        "base: pipe",
        "base: /dev/zero",
    ],
)
def test_a_configuration_that_is_none_is_named(text: str, tmp_path: Path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    os.mkfifo(tmp_path / "pipe")
    began = time.monotonic()
    said = refused(["train", path], capsys)
    assert "mine.yaml" in said or text.startswith("base: ")
    assert "aliases; 20 can be followed" in said or text is not BOMB
    assert "500 brackets are read" in said or text not in (DEEP, BRACKETS)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("name", ["config.json", "config.yaml"])
def test_a_description_without_end_is_not_read_to_its_end(name: str, model: Path, capsys):
    with (model / name).open("wb") as file:
        file.truncate(1 << 34)
    words = ["models", model] if name == "config.json" else ["train", model / name]
    assert "larger than the" in refused(words, capsys)


@pytest.mark.parametrize(
    "change",
    [
        "data.folder=" + DEEP,
        "seed=-1",
        "data.folder=[]",
        "optimiser.steps=.nan",
        "data.batch=[[1]]",
        "model=" + "{a: " * 500,
    ],
    ids=lambda text: text[:16],
)
def test_a_change_that_cannot_be_is_named(change: str, tmp_path: Path, capsys):
    words = ["train", "groove-sine-spe", "--set", f"run={tmp_path / 'run'}", "--set", change]
    said = refused(words, capsys)
    assert "[[[[[[[[[[" not in said or len(said) < 1200
    if change == "seed=-1":
        assert "seed is -1" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", [DEEP, "a: [", "a: b: c"], ids=short)
def test_a_run_whose_configuration_is_broken_is_named(text: str, tmp_path: Path, capsys):
    run, pianos = tmp_path / "run", prepared_set(tmp_path / "set", "remi")
    words = [
        "train",
        "pop-piano-sine-spe",
        "--set",
        f"data.folder={pianos}",
        "--set",
        f"run={run}",
        "--resume",
    ]
    (run / "checkpoints" / "00000001").mkdir(parents=True)
    (run / "config.yaml").write_text(text)
    assert "config.yaml" in refused(words, capsys)


def test_a_folder_is_called_by_its_name(capsys):
    assert refused(["continue", ".", "--model", "untrained:tiny"], capsys).startswith(
        "musicgen: . is a folder"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["generate", "--variations", 10**6], "--variations is 1000000; up to 1000"),
        (["generate", "--model", "untrained:tiny", "--seed", -1], "seed is -1"),
        (["generate", "--bars", 0], "--bars is 0"),
        (["app", "--port", 80000], "--port is 80000"),
    ],
)
def test_numbers_that_cannot_be_are_named(
    words: list, sentence: str, capsys, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(words, capsys)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: not enough memory: you tried to"),
     RuntimeError("CUDA out of memory. Tried to allocate"), MemoryError(), RecursionError("maximum depth exceeded")],
)  # fmt: skip
def test_want_of_memory_is_a_sentence(error: Exception, capsys, monkeypatch):
    def fails(arguments: object) -> None:
        raise error

    monkeypatch.setattr("app.commands.models.run", fails)
    assert "Traceback" not in refused(["models"], capsys)


def test_a_fault_of_the_program_is_not_hidden(monkeypatch):
    def fails(arguments: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("app.commands.models.run", fails)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["models"])


SLOW = """
import sys, time, types
import app.commands.train as train
train.LAST_STEP_SECONDS, train.LAST_OPERATION_SECONDS = 1, 1
run = types.SimpleNamespace(stop=lambda: None, fabric=types.SimpleNamespace(is_global_zero=True))
with train._signals(run):
    print("at work", flush=True)
    if sys.argv[1] == "between":
        while True:
            time.sleep(0.01)
    import ctypes
    while True:
        ctypes.CDLL(None).sleep(30)  # hears of no signal, as one long operation of a library
"""


@pytest.mark.parametrize("where", ["between", "within"])
def test_a_step_without_end_is_ended(where: str):
    command = [sys.executable, "-c", SLOW, where]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"at work\n"
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(120) != 0
