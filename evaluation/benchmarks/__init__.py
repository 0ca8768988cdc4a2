"""The papers' experiments other than music generation: classification of long sequences, text, images and points."""
