"""The papers' other experiments, away from the music: long sequences to classify, text, images, points in space."""
