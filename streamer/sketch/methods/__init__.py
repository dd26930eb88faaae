"""The methods, one a file; registry.py finds them."""
