"""Requests for music, the processes that compose, opened files, and streaming takes to the page."""
