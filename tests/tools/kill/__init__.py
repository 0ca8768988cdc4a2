"""Runs and commands that are killed at random moments, and must end as if they had been left alone."""
