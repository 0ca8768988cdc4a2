"""Commands that measure the numbers in docs/data.md."""
