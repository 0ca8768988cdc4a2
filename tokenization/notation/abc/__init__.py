"""ABC, the notation of folk tunes as text, to a score."""
