"""The kernel: what a model computes for a token, compiled to WebAssembly (kernel.c), and its use from Python."""
