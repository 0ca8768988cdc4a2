"""The page, and its actions for programs."""
