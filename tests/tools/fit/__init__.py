"""Fits of what the languages lean towards, to what makes held-out music likeliest."""
