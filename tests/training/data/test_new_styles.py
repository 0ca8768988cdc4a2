"""Parts of another band play the chords of a piece."""

import numpy as np

from tokenization.ensemble.language import MOST_TRACKS, Ensemble
from tokenization.score import Marker, Meters, Notes, Score, Track
from training.data.new_styles import in_new_style, in_shorter_bars, one_metre, with_bands

BEAT = 24
BAR = 4 * BEAT
TRACKS = (Track("drums", 0, True), Track("bass", 33), Track("guitar", 25))
MANY = range(40)


def band(chords: list[str], bass: int, guitar: list[int]) -> Score:
    """Return a bar per chord: a drum and a bass note on the first beat, and a chord of guitars that fills the bar."""
    rows = [(b * BAR, BEAT, 36, 90, 0) for b in range(len(chords))]
    rows += [(b * BAR, BEAT, bass, 80, 1) for b in range(len(chords))]
    rows += [(b * BAR, BAR, pitch, 70, 2) for b in range(len(chords)) for pitch in guitar]
    return Score(
        ticks_per_beat=BEAT,
        notes=Notes(*zip(*rows, strict=True)).sorted(),
        tracks=TRACKS,
        meters=Meters([0], [4], [4]),
        markers=tuple(Marker(b * BAR, chord) for b, chord in enumerate(chords)),
    )


def song(chords: list[str]) -> Score:
    rows = [(b * BAR + BEAT, BEAT, 72, 90, 0) for b in range(8)]
    return Score(
        ticks_per_beat=BEAT,
        notes=Notes(*zip(*rows, strict=True)),
        tracks=(Track("voice", 52),),
        meters=Meters([0], [4], [4]),
        markers=tuple(Marker(b * BAR // 2, chord) for b, chord in enumerate(chords)),
    )


def pitch_classes(score: Score, program: int, half_bar: int) -> set[int]:
    """Return the pitch classes that an instrument strikes in half a bar."""
    tracks = [n for n, t in enumerate(score.tracks) if t.program == program and not t.is_drum]
    notes = score.notes[np.isin(score.notes.track, tracks)]
    return set((notes.pitch[notes.onset_ticks * 2 // BAR == half_bar] % 12).tolist())


def test_a_band_joins_a_song_on_its_chords_and_strikes_again_where_they_change():
    chords = ["D_m", "G_7", "A#_M", "E_o"] * 4  # two in a bar
    wanted = [{2, 5, 9}, {7, 11, 2}, {10, 2, 5}, {4, 7, 10}] * 4
    original = song(chords)
    joined, found = 0, 0
    for seed in MANY:
        random = np.random.default_rng(seed)
        made = with_bands(original, [band(["C_M", "C_M"], 36, [60, 64, 67])], random)
        assert made.notes[made.notes.track == 0] == original.notes  # the melody stays
        assert made.on_drums.any()
        for half, tones in enumerate(wanted):
            strikes = pitch_classes(made, 25, half)
            assert strikes <= tones
            joined += bool(strikes)
            found += strikes == tones
            assert pitch_classes(made, 33, half) <= tones
    assert found > 0.8 * joined > 100


def test_parts_of_another_band_take_over_with_their_instruments_and_the_chords_of_the_piece():
    piece = band(["F_m7", "A#_7", "D#_M7", "N_N"], 41, [53, 56, 60, 63])
    other = band(["C_M"] * 3, 43, [64, 67]).replace(
        tracks=(Track("drums", 0, True), Track("bass", 38), Track("strings", 48))
    )
    tones = [{5, 8, 0, 3}, {10, 2, 5, 8}, {3, 7, 10, 2}, set()]
    found = 0
    for seed in MANY:
        made = in_new_style(piece, other, np.random.default_rng(seed))
        assert made.markers == piece.markers
        for bar in range(4):
            for half in (0, 1):
                found += len(strikes := pitch_classes(made, 48, 2 * bar + half))
                # E and G are the third and the fifth of C, the fifth and the seventh of A minor …
                assert strikes <= tones[bar] | {(x + 2) % 12 for x in tones[bar]}
    assert found > 20


def test_parts_of_many_bands_join_up_to_the_limit_with_the_drums_of_the_first():
    original = song(["C_M"] * 16)
    guitars = band(["C_M"] * 2, 36, [60, 64])
    most = 0
    for seed in MANY:
        made = with_bands(original, [guitars] * 20, np.random.default_rng(seed))
        assert made.tracks[0] == original.tracks[0]
        assert sum(track.is_drum for track in made.tracks) == 1
        assert {*made.notes.track.tolist()} == {*range(len(made.tracks))}
        Ensemble().encode(made)  # the chords are a part too, and an instrument has a few voices
        most = max(most, len(made.tracks))
    assert most == MOST_TRACKS


def test_a_waltz_leaves_out_the_fourth_beat_of_a_band():
    rows = [(0, BEAT, 36, 90, 0), (BAR - BEAT, BEAT, 38, 90, 0), (BAR, BAR + BEAT, 41, 80, 1)]
    piece = band(["C_M"] * 4, 36, [60]).replace(
        notes=Notes(*zip(*rows, strict=True)),
        markers=(Marker(0, "C_M"), Marker(BAR - BEAT, "F_M"), Marker(2 * BAR, "G_M")),
    )
    waltz = in_shorter_bars(piece, (3, 4))
    assert waltz is not None
    assert one_metre(waltz) == (3, 4)
    assert waltz.notes.onset_ticks.tolist() == [0, 3 * BEAT]
    assert waltz.notes.duration_ticks.tolist() == [BEAT, 4 * BEAT]
    assert waltz.markers == (Marker(0, "C_M"), Marker(3 * BEAT, "F_M"), Marker(6 * BEAT, "G_M"))
    assert in_shorter_bars(piece, (4, 4)) is piece
    for longer_or_other in ((5, 4), (6, 8)):
        assert in_shorter_bars(piece, longer_or_other) is None


def test_a_band_without_drums_or_with_two_metres_is_unchanged():
    piece = band(["C_M"] * 4, 36, [60, 64, 67])
    no_drums = piece.replace(tracks=(Track("piano"), *TRACKS[1:]))
    changing = piece.replace(meters=Meters([0, BAR], [4, 3], [4, 4]))
    for score in (no_drums, changing):
        assert in_new_style(score, piece, np.random.default_rng(0)) is score
