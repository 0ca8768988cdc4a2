"""How far recalling is to be trusted is found again where it is known, and written into a model's card."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from musicgen.generation.recall.memory import Memory, guesses, share
from musicgen.generation.recall.recalling import read_habits
from musicgen.storage.checkpoint import CONFIG
from tests.app.toy_models import write_model
from tokenization.records import json_of
from training.results.recall_fit import HeldOut, fit, fitted, main

TRUE = (-1.0, 0.3, 0.5, 0.1)
TOKENS = 9
EVEN = float(np.log(TOKENS))  # nats of a token, by a model that knows nothing


def mixed_piece(seed: int, length: int = 6000) -> HeldOut:
    """Return a piece that is drawn from the mixture of a model that knows nothing and of what is recalled by TRUE."""
    random = np.random.default_rng(seed)
    ids = random.integers(TOKENS, size=8).tolist()
    memory = Memory(ids)
    while len(ids) < length:
        token, guess = int(random.integers(TOKENS)), memory.guess()
        if guess is not None and random.random() < share(TRUE, guess.length, guess.agreement):
            token = int(random.choice([*guess.chances], p=[*guess.chances.values()]))
        ids.append(token)
        memory.take(token)
    return HeldOut(np.array(ids), [*range(0, length, 40)], np.full(length - 1, EVEN))


def test_trust_that_pieces_were_drawn_by_is_found():
    pieces = [mixed_piece(seed) for seed in range(4)]
    weights = fit(pieces)
    lengths, agreements = np.concatenate([guesses(one.ids)[1:] for one in pieces], axis=1)
    for length, agreement in [(4, 1.0), (8, 1.0), (4, 0.5)]:
        assert ((lengths >= length) & (agreements >= agreement)).sum() > 100
        assert share(weights, length, agreement) == pytest.approx(
            share(TRUE, length, agreement), abs=0.06
        )
    found = fitted(pieces)
    assert found.pieces == 4
    assert found.alone == pytest.approx(EVEN)
    assert found.interval is not None
    assert found.change < -found.interval


def test_nothing_is_trusted_where_nothing_comes_twice():
    piece = HeldOut(np.arange(60), [0, 20, 40], np.full(59, EVEN))
    assert fit([piece]) == (-30.0, 0.0, 0.0, 0.0)
    alone = fitted([piece])
    assert (alone.change, alone.interval) == (pytest.approx(0, abs=1e-9), None)


def test_weights_are_written_into_a_card(pianos: Path, tmp_path: Path, monkeypatch, capsys):
    write_model(tmp_path, "remi", "rope")
    before = json_of(tmp_path / CONFIG)
    monkeypatch.setattr(sys, "argv", ["recall_fit", str(tmp_path), "--data", str(pianos)])
    assert main() == 0
    assert json_of(tmp_path / CONFIG) == before
    sys.argv.append("--write")
    assert main() == 0
    habits = read_habits(json_of(tmp_path / CONFIG)["card"]["training"], "card")
    assert habits is not None
    assert len(habits.weights) == 4
    assert "with what is recalled" in capsys.readouterr().out
