"""Stochastic positional encoding (Liutkus et al., 2021): sine and convolutional."""
