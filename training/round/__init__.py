"""Packs, runs and unpacks a round of training on a GPU machine without network (docs/gpu-round.md)."""
