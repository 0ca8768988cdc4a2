"""Token ids to logits and back to ids: the model, its encodings of position, and generation."""
