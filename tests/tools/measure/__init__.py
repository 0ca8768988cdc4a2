"""Measurements, a command each, behind the numbers of the READMEs."""
