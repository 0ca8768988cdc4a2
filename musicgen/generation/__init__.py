"""From a model to tokens: continue a prompt, one token quickly, sampling, likelihood."""
