"""Nodes of a network put in the place of others that compute the same, so that they become layers and fewer kernels."""

from rewriting.behind_views import with_ends_at_layers
from rewriting.concats import with_joined_concats
from rewriting.halves import with_halves
from rewriting.idle import without_idle_nodes
from rewriting.linear import with_convolutions
from rewriting.normalization import with_normalizations
from rewriting.padding import with_own_crops, with_own_pads
from rewriting.products import with_own_factors
from rewriting.quantized import with_quantized_moves, with_signed_weights
from rewriting.repeated import without_repeated_nodes, without_unread_nodes
from rewriting.scatter import without_known_scatters

PASSES = (without_unread_nodes, with_joined_concats, without_idle_nodes, without_repeated_nodes, without_known_scatters,
          with_halves, with_own_pads, with_own_crops, with_normalizations, with_halves, with_signed_weights, with_convolutions,
          with_ends_at_layers, with_own_factors, with_quantized_moves, with_own_pads)


def rewrite(graph):
    for change in PASSES:
        change(graph)
