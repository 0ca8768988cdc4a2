"""Figures: one look, curves, pictures of attention, and whole figures of the report."""
