"""Read ABC, the text notation of folk tunes."""
