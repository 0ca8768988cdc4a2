"""A small untrained model of any language, for the tests of this folder."""

import torch

from musicgen.config import ModelConfig
from musicgen.performer import Performer
from musicgen.playable import Playable
from tokenization.language import Language


def toy_playable(spoken: Language) -> Playable:
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "dropout": 0.0}
    config = ModelConfig.preset("tiny", vocabulary_size=len(spoken.vocabulary), **sizes)
    return Playable(name="toy", language=spoken, weights=lambda: Performer(config, 0).eval())


def sure_playable(spoken: Language) -> Playable:
    """Return an untrained model that writes what it recalls wherever it recalls something."""

    def weights() -> Performer:
        sizes = {"layers": 1, "width": 64, "heads": 2, "feedforward": 16, "tie_embeddings": True}
        told = {"vocabulary_size": len(spoken.vocabulary), "recall": spoken.recalled()}
        config = ModelConfig.preset("tiny", **told, **sizes)
        model = Performer(config, 0).eval()
        with torch.no_grad():
            for guess in (model.recall.planned, model.recall.matched):
                guess.weight.copy_(100 * model.embedding.weight)
        return model

    return Playable(name="sure", language=spoken, weights=weights)
