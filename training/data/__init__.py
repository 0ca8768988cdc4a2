"""Prepares data sets from folders of music, and cuts batches from them."""
