"""Experiments, split into jobs that run once, in parallel processes, and whose results are stored."""
