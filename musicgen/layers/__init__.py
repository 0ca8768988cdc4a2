"""Layers below the model, made for training on a CPU and for a few rows at a time."""
