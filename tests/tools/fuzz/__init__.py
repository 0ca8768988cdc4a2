"""Fuzz readers, languages and writers with damaged files: python -m tests.tools.fuzz."""
