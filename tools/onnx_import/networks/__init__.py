"""A whole model as a network: tensors in memory, and the steps that compute them."""
