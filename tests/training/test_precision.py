"""The precision that `auto` stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from app.cli import main
from musicgen.storage import checkpoint
from tests.training.makers import prepared_set, toy_config, toy_file
from training.precision import fastest, with_precision


@pytest.fixture(scope="session")
def pianos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_set(tmp_path_factory.mktemp("pianos") / "set", "remi")


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes this machine one with the given abilities and no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    def become(*, amx: bool = False, avx512: bool = False) -> None:
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512, raising=False)

    return become


def test_a_processor_trains_in_bfloat16_where_it_multiplies_that(processor: Any) -> None:
    processor()
    assert fastest("cpu") == ("32-true", "this processor would have to imitate bfloat16")
    for abilities in ({"amx": True}, {"avx512": True}):
        processor(**abilities)
        assert fastest("auto")[0] == fastest("cpu")[0] == "bf16-mixed"


def test_an_older_torch_that_cannot_say_is_taken_at_its_word(
    processor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(amx=True, avx512=True)
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported")
    assert fastest("cpu")[0] == "32-true"


@pytest.mark.parametrize("has", [True, False])
def test_a_gpu_trains_in_bfloat16_where_it_has_it(
    monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)
    assert fastest("auto")[0] == ("bf16-mixed" if has else "32-true")


def test_what_was_asked_for_is_left_alone(pianos: Path, tmp_path: Path) -> None:
    config = toy_config(tmp_path, pianos, device={"precision": "64-true"})
    assert with_precision(config, resume=False) == (config, [])


def test_a_run_says_its_precision_and_goes_on_in_it_on_another_processor(
    pianos: Path, tmp_path: Path, processor: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(
        toy_file(
            tmp_path,
            pianos,
            optimiser={"steps": 2},
            device={"accelerator": "cpu", "precision": "auto"},
        )
    )
    processor(avx512=True)
    assert main(["train", file]) == 0
    assert (
        "Precision bf16-mixed: this processor multiplies bfloat16 (AVX-512 BF16)."
        in capsys.readouterr().err
    )
    assert checkpoint.read_card(tmp_path / "run" / "model")[1].training["precision"] == "bf16-mixed"
    processor()
    assert main(["train", file, "--resume", "--set", "optimiser.steps=4"]) == 0
    said = capsys.readouterr().err
    assert "Precision bf16-mixed: as this run began." in said
    assert "device.precision was" not in said
