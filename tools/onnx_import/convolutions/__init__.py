"""Convolutions, and what is folded and fused into them, as tables of a layers file."""
