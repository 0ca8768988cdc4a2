"""Preference training: a model learns which of its own takes are convincing (run.py)."""
