"""Make the web app's examples from the data sets: python -m tests.tools.make_examples POP909 GROOVE.

The songs are of the held-out split of `musicgen data pop909`, the trios of the groove set's test split.
"""

from pathlib import Path

from tests.tools.options import options
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import excerpt
from tokenization.whole_file import write_whole
from training.data.sources.pop909 import read_song

EXAMPLES = Path(__file__).parents[2] / "app" / "examples"
BARS = 16
# Name → folder of the song or file of the trio, first bar (from 0).
PIECES = {
    "piano-c-major": ("331", 4),
    "piano-c-sharp-minor": ("500", 8),
    "piano-g-minor": ("886", 8),
    "trio-disco": ("pop047.boneym_boneym.mid", 0),
    "trio-jazz": ("pop026.yamaha-jazzbouncy_jazzbouncymaina.mid", 0),
    "trio-trance": ("pop194.trance_trancebass1.mid", 0),
}


if __name__ == "__main__":
    given = options(__doc__, "pop909", "groove")
    for name, (place, start) in PIECES.items():
        if name.startswith("piano"):
            score = language("remi").arrange(read_song(given.pop909 / place))
            source = f"POP909 {place}"
        else:
            score = language("groove").arrange(read_midi(given.groove / "test" / place))
            source = f"MMA groove over {place}"
        bar = 4 * score.ticks_per_beat
        part = excerpt(score, start * bar, (start + BARS) * bar)
        write_whole(EXAMPLES / f"{name}.mid", write_midi(part, texts=(f"from {source}",)))
