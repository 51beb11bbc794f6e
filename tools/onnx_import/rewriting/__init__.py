"""Rewriting nodes as simpler or more usual ones."""
