"""Causal linear attention: feature maps, and the sums over the past in several forms that agree."""
