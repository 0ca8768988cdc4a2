"""What a run writes: its folder, checkpoints, logs, and what is known of its model."""
