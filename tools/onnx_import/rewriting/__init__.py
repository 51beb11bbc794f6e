"""Nodes of a network put in the place of others that compute the same, so that they become layers and fewer kernels."""
