"""A server of our own, with honest visitors and hostile ones."""
