"""What the evaluations found, as tables of text: the terminal and the report show the same."""
