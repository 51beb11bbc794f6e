"""Nodes written out as several simpler ones, one node at a time, as a model is read."""
