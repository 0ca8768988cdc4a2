"""The groove language: bass, drums and one other part as note-ons, note-offs and time shifts."""
