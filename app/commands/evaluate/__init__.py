"""The evaluations as commands, one a file."""
