"""Make the web app's examples from the data sets: python -m tests.tools.make_examples POP909 GROOVE.

The songs are of the held-out split of `musicgen data pop909`, the trios of the groove set's test split.
"""

import sys
from pathlib import Path

from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import excerpt
from tokenization.whole_file import write_whole
from training.data.sources.pop909 import read_song

EXAMPLES = Path(__file__).parents[2] / "app" / "examples"
# Name → folder of the song, first bar (from 0), bars.
SONGS = {
    "piano-c-major": ("331", 4, 16),
    "piano-c-sharp-minor": ("500", 8, 16),
    "piano-g-minor": ("886", 8, 16),
}
# Name → file, first bar, bars.
TRIOS = {
    "trio-disco": ("pop047.boneym_boneym.mid", 0, 16),
    "trio-jazz": ("pop026.yamaha-jazzbouncy_jazzbouncymaina.mid", 0, 16),
    "trio-trance": ("pop194.trance_trancebass1.mid", 0, 16),
}


def main(songs: Path, trios: Path) -> None:
    """Write the six files."""
    for name, (folder, start, bars) in SONGS.items():
        score = language("remi").arrange(read_song(songs / folder))
        write(name, score, start, bars, f"POP909 {folder}")
    for name, (file, start, bars) in TRIOS.items():
        score = language("groove").arrange(read_midi(trios / "test" / file))
        write(name, score, start, bars, f"MMA groove over {file}")


def write(name: str, score, start: int, bars: int, source: str) -> None:
    """Write some bars of an arranged score."""
    bar_ticks = 4 * score.ticks_per_beat
    part = excerpt(score, start * bar_ticks, (start + bars) * bar_ticks)
    midi = write_midi(part, texts=(f"from {source}",))
    write_whole(EXAMPLES / f"{name}.mid", midi)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
