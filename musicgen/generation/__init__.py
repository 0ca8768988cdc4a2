"""Generation: requests, their batched execution, and sampling."""
