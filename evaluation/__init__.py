"""The papers' claims, measured again: style, extrapolation, and probes of the encodings."""
