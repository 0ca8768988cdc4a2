"""Shared by several packages: processes and workers, seeds and learning rates, intervals of means."""
