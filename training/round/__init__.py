"""A round of training on a GPU machine without network: packed here, run there, unpacked here (docs/gpu-round.md)."""
