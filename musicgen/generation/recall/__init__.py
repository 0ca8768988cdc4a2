"""Repetition: what followed the same notes before is likelier, phrases return, and endless loops are left."""
