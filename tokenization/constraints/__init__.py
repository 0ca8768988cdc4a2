"""Grammars around a grammar: no end, a last bar, tokens that are given."""
