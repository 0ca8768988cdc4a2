"""The evaluation commands."""
