"""The server under the page."""
