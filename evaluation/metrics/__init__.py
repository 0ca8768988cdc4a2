"""Measures of single pieces, and means with their uncertainty."""
