"""Loops that numba compiles, where it can: a layer's work in one call, and products that share the cores."""
