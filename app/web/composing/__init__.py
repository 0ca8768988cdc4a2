"""What is asked of a model, the work that it makes, and how the page sees it grow."""
