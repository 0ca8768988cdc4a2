"""Commands that measure the numbers in docs/data.md and training/configs/README.md."""
