"""Repetition and contrast: phrases return, new ones lie higher or lower than those before, endless loops are left."""
