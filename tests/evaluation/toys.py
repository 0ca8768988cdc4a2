"""A small untrained model of any language, for the tests of this folder."""

from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.playable import Playable
from tokenization.language import Language


def toy_performer(spoken: Language, seed: int = 0) -> Performer:
    sizes = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "dropout": 0.0}
    size = len(spoken.vocabulary)
    return Performer(ModelConfig.preset("tiny", vocabulary_size=size, **sizes), seed).eval()


def toy_playable(spoken: Language) -> Playable:
    return Playable(name="toy", language=spoken, weights=lambda: toy_performer(spoken))
