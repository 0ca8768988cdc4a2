"""The page in a real browser: its picture, its speed, one visitor and many, honest and hostile."""
