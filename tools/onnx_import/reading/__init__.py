"""Reading a model: its files, shapes and constants."""
