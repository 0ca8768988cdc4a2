"""The second version of the groove language: with bars, places in them, and goals."""
