"""Damaged files without end, through readers, languages and writers: python -m tests.tools.fuzz."""
