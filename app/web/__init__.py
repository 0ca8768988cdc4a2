"""The web page and the endpoints for programs."""
