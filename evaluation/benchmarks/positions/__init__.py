"""Encodings of places in more than one dimension, which only the models of this folder have."""
