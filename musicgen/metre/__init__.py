"""Musical time, and heads that remember by the place in the metre."""
