"""The model: token ids to logits. performer.py is the file to read first."""
