"""Music sounds, just below full scale; what cannot be played costs a child process and a sentence."""

import struct
from pathlib import Path

import numpy as np
import pytest

import app.audio
from app.audio import AudioError, render_to
from app.web.offered_models import example
from musicgen.common.workers import Bounds
from tokenization.analysis.beats import tempo_map
from tokenization.midi.reading import read_midi


@pytest.fixture
def render(tmp_path: Path):
    """Return a function that gives a stereo WAV of a MIDI file."""

    def rendered(midi: bytes, soundfont: Path | None = None) -> bytes:
        render_to(tmp_path / "a.wav", midi, soundfont)
        return (tmp_path / "a.wav").read_bytes()

    return rendered


def samples(wave: bytes) -> np.ndarray:
    """Return a stereo WAV's samples, −1 … 1: (n, 2)."""
    assert wave[:4] == b"RIFF"
    assert struct.unpack_from("<HH", wave, 20) == (1, 2)  # PCM, stereo
    return np.frombuffer(wave[44:], "<i2").reshape(-1, 2) / 32768


def test_a_piece_sounds_for_its_time_without_clipping(render):
    wave = render(example("trio-disco"))
    heard = samples(wave)
    rate = struct.unpack_from("<I", wave, 24)[0]
    score = read_midi(example("trio-disco"))
    seconds = float(tempo_map(score).to_seconds(np.array(score.end_ticks / score.ticks_per_beat)))
    assert seconds <= len(heard) / rate < seconds + 20
    assert np.sqrt((heard**2).mean()) > 0.02
    assert 0.8 < np.abs(heard).max() < 0.9


def test_what_cannot_be_played_is_named_and_leaves_no_file(render, tmp_path):
    broken = tmp_path / "broken.sf2"
    broken.write_bytes(b"no sounds")
    with pytest.raises(AudioError, match="could not play this piece"):
        render(b"MThd garbage")
    with pytest.raises(AudioError, match=r"there is no soundfont .*font\.sf2"):
        render(example("trio-jazz"), tmp_path / "font.sf2")
    with pytest.raises(AudioError, match=r"with broken\.sf2"):
        render(example("trio-jazz"), broken)
    assert [*tmp_path.iterdir()] == [broken]


def two_notes(apart: str) -> bytes:
    """Return a MIDI file of two notes so far apart, in 192nds of a second as MIDI writes them, in hexadecimals."""
    track = bytes.fromhex(f"00ff510307a120 00903c40 60903c00 {apart}903c40 60903c00 00ff2f00")
    head = b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96)
    return head + b"MTrk" + struct.pack(">I", len(track)) + track


def test_a_renderer_that_takes_too_long_is_ended(render, monkeypatch):
    monkeypatch.setattr(app.audio, "BOUNDS", Bounds(seconds=0.01))
    with pytest.raises(AudioError, match=r"could not play .* \(it takes longer than 0\.01 seconds"):
        render(two_notes("86f500"))  # ten minutes


def test_a_renderer_that_takes_too_much_memory_is_ended(render, monkeypatch):
    monkeypatch.setattr(app.audio, "BOUNDS", Bounds(seconds=20, memory_bytes=1 << 30))
    assert render(example("trio-jazz"))
    with pytest.raises(AudioError, match=r"could not play .* \(it ended the process"):
        render(two_notes("d28d00"))  # two hours: sound that most machines could hold
