"""The same seed gives the same bytes of MIDI in every host, at every level of optimisation, alone and in a crowd."""

import hashlib
import json
import shutil
from pathlib import Path
from threading import Thread

import pytest

import musicgen
from musicgen.continuation import Continuation, run_together
from musicgen.generation.request import Request
from musicgen.playable import find
from tests.musicgen.kernel.hosts import at_level, in_node
from tests.musicgen.kernel.same_music import EXAMPLES, TWO, hashes

GOLDEN = Path(__file__).parents[2] / "golden/same_music.json"


@pytest.fixture(scope="module")
def golden() -> dict[str, list[str]]:
    return json.loads(GOLDEN.read_text())


def test_music_is_that_of_the_golden_hashes(golden: dict[str, list[str]]):
    """If weights, grammar or rules change on purpose: `python -m tests.musicgen.kernel.test_same_music` writes them."""
    assert hashes(find("ensemble")) == golden


@pytest.mark.parametrize("level", ["none", "speed_and_size"])
def test_music_is_the_same_at_another_level_of_optimisation(
    level: str, golden: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
):
    with at_level(level, monkeypatch):
        assert hashes(find("ensemble"), "end", "generate") == {
            name: golden[name] for name in ("end", "generate")
        }


@pytest.mark.skipif(
    shutil.which("node") is None, reason="Node, which hosts the kernel in V8, is not here"
)
def test_music_is_the_same_in_v8(golden: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch):
    with in_node(monkeypatch):
        found = hashes(find("ensemble"), "end", "generate")
    assert found == {name: golden[name] for name in found}


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("node") is None, reason="Node, which hosts the kernel in V8, is not here"
)
def test_all_music_is_the_same_in_v8_and_at_each_level(
    golden: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
):
    for level in ("none", "speed", "speed_and_size"):
        with at_level(level, monkeypatch):
            assert hashes(find("ensemble")) == golden
    with in_node(monkeypatch):
        assert hashes(find("ensemble")) == golden


def test_music_is_the_same_on_two_threads(golden: dict[str, list[str]]):
    found: dict[int, dict[str, list[str]]] = {}
    threads = [
        Thread(target=lambda n=n: found.update({n: hashes(find("ensemble"), "end")}))
        for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n]["end"] for n in range(2)] == [golden["end"]] * 2


def test_music_is_the_same_among_31_other_rows(golden: dict[str, list[str]]):
    model = find("ensemble")
    prompt = model.read(EXAMPLES / "trio-jazz.mid").prompt(4)
    own = Continuation(model, prompt, Request(bars=2, **TWO))
    other = model.read(EXAMPLES / "trio-disco.mid").prompt(2)
    crowd = Continuation(model, other, Request(tokens=120, variations=30, seed=1))
    for _ in run_together([crowd, own]):
        pass
    found = [hashlib.sha256(take.midi).hexdigest()[:16] for take in own.takes()]
    assert found == golden["continue"]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(hashes(musicgen.load("ensemble")), indent=1) + "\n")
