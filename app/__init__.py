"""The one place that talks to people: commands in a terminal, a page in a browser."""
