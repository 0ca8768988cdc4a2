"""What music remembers of itself: it returns to phrases, and is led out of circles."""
