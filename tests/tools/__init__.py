"""What is run by hand, or by make: python -m tests.tools.…, each with --help."""
