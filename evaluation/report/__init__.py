"""Results of every evaluation on one page of HTML."""
