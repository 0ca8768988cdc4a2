"""Measures of single pieces, and distances between sets of them."""
