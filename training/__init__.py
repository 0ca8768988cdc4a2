"""Prepares data sets from folders of music, and trains models on them."""
