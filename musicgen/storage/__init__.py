"""Models on disk: a folder each, found by name or path."""
