"""Experiments as jobs: each done once, spread over processes, its result stored."""
