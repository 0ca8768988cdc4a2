"""A small untrained model of any language, for the tests of this folder."""

from musicgen.model.config import ModelConfig
from musicgen.model.performer import Performer
from musicgen.playable import Playable
from tokenization.language import Language


def toy_performer(spoken: Language) -> Performer:
    config = ModelConfig.preset(
        "tiny", vocabulary_size=len(spoken.vocabulary), layers=1, width=16, heads=2, feedforward=16
    )
    return Performer(config, seed=0).eval()


def toy_playable(spoken: Language) -> Playable:
    return Playable(name="toy", language=spoken, weights=lambda: toy_performer(spoken))
