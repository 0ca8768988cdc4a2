"""The page in a real browser: its speed, one visitor and many, honest and hostile."""
