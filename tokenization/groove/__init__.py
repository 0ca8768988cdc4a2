"""The groove language: bass, drums and one more part as note-ons, note-offs and time shifts."""
