"""Repetition: what was said returns, and endless loops are left."""
