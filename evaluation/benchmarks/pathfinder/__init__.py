"""Pathfinder, made on the spot: its pictures, and what can be said of them without following a path."""
