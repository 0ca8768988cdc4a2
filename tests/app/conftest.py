"""Fixtures for the tests of commands, which run in this process."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.evaluation.toys import write_model
from tests.training.makers import prepared_set


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that runs a command and returns its output and errors."""

    def run(*words: object, code: int = 0) -> Any:
        assert main([str(word) for word in words]) == code
        return capsys.readouterr()

    return run


@pytest.fixture
def refused(command: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that runs a command that must fail, and returns its one-line message."""

    def run(*words: object) -> str:
        out, err = command(*words, code=2)
        *remarks, sentence = err.splitlines()
        assert out == ""
        assert sentence.startswith("musicgen: ")
        assert len(sentence) < 1200
        assert not [line for line in remarks if line.startswith(("musicgen: ", "Traceback"))]
        return sentence

    return run


@pytest.fixture(scope="session")
def shared_set(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that gives a prepared set of a language; it is made once, so tests must not change it."""

    @cache
    def made(spoken: str, **sizes: int) -> Path:
        return prepared_set(tmp_path_factory.mktemp("prepared") / spoken, spoken, **sizes)

    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(write_model(tmp_path / "model", "remi", "sine_spe", data="x"))
