"""Generation: requests, their batched execution, sampling, and likelihoods."""
