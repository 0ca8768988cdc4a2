"""The papers' other experiments, away from the music: classification of long sequences, text, images, points in space."""
