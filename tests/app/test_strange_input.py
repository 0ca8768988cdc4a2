"""Malicious files, options and models give a one-line error and exit code 2, and nothing is written."""

import json
import os
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DEEP = "[" * 200_000
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}]\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)


def change(model: Path, part: str, **values: object) -> None:
    path = model / "config.json"
    content = json.loads(path.read_text())
    content[part].update(values)
    path.write_text(json.dumps(content))


def small_only(config, seed):
    """Build a model, unless it is so large that building it could take much memory."""
    from musicgen.performer import Performer

    sizes = config.layers * config.width * max(config.feedforward, config.features.features)
    assert sizes < 1 << 22, "memory is allocated before the check"
    numbers = [value for value in vars(config.position).values() if isinstance(value, int)]
    assert max(numbers, default=0) < 1 << 12, "memory is allocated before the check"
    return Performer(config, seed)


def test_sizes_are_checked_before_memory_is_allocated(model: Path, refused, monkeypatch):
    monkeypatch.setattr("musicgen.weights.Performer", small_only)
    whole = (model / "config.json").read_text()
    spe, learned, favor = ({"name": name} for name in ("sine_spe", "learned", "favor"))
    for sizes in (
        {"layers": 3000}, {"layers": 10**9}, {"layers": 5}, {"layers": True}, {"layers": 1e300}, {"layers": None},
        {"width": 1 << 19}, {"feedforward": 1 << 20}, {"feedforward": 10**12}, {"vocabulary_size": 1 << 20},
        {"heads": 128}, {"chunk": 10**12}, {"dropout": 10**400}, {"initial_deviation": "wide"},
        {"initial_deviation": 10**400}, {"features": {**favor, "features": 1 << 20}},
        {"features": {**favor, "features": 1 << 40}}, {"features": {**favor, "features": 10**400}},
        {"position": {**spe, "realisations": 1 << 20}}, {"position": {**spe, "realisations": 1 << 50}},
        {"position": {**spe, "sines": 1 << 20}}, {"position": {**spe, "sines": 1 << 30}},
        {"position": {**learned, "max_length": 1 << 20}}, {"position": {**learned, "max_length": 1 << 40}},
    ):  # fmt: skip
        (model / "config.json").write_text(whole)
        change(model, "model", **sizes)
        assert refused("generate", "--model", model, "--tokens", 9, "-o", model / "out"), sizes
    assert not (model / "out").exists()


@pytest.mark.parametrize(
    "text",
    [DEEP, "null", '{"card": {"language": []}}', "\ud800", "1e999"],
    ids=lambda text: ascii(text[:12]),
)
def test_an_invalid_config_is_reported(text: str, model: Path, refused):
    (model / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "config.json" in refused("models", model)
    assert "config.json" in refused("generate", "--model", model)
    assert "config.json" in refused("app", "--model", model, "--no-browser")


def test_an_invalid_configuration_is_reported(tmp_path: Path, refused):
    path = tmp_path / "mine.yaml"
    os.mkfifo(tmp_path / "pipe")
    start = time.monotonic()
    for text, says in (
        (DEEP, "and 500 brackets"),
        ("[" * 501, "and 500 brackets"),
        ("{a: " * 100_000, "mine.yaml"),
        (BOMB, "aliases; the limit is 20"),
        ("\x00", "mine.yaml"),
        ("run: 2026-99-99", "mine.yaml"),
        ("run: !!python/name:os.system", "mine.yaml"),
        ("run: !!bool maybe", "mine.yaml"),
        ("run: !!timestamp today", "mine.yaml"),
        ("run: !!int ''", "mine.yaml"),
        ("base: nothing here/" + "a" * 5000, ""),
        ("base: pipe", ""),
        ("base: /dev/zero", ""),
    ):
        path.write_text(text)
        assert says in refused("train", path)
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("name", ["config.json", "config.yaml"])
def test_a_huge_configuration_is_not_read_whole(name: str, model: Path, refused):
    with (model / name).open("wb") as file:
        file.truncate(1 << 34)
    words = ["models", model] if name == "config.json" else ["train", model / name]
    assert "larger than the" in refused(*words)


def test_an_invalid_change_is_reported(tmp_path: Path, refused):
    run = tmp_path / "run"
    for change, says in (
        ("data.folder=" + DEEP, ""),
        ("model=" + "{a: " * 500, ""),
        ("data.folder=[]", "folder"),
        ("data.batch=[[1]]", "batch"),
        ("seed=-1", "seed is -1"),
    ):
        assert says in refused("train", "groove-sine-spe", "--set", f"run={run}", "--set", change)
    assert not run.exists()
