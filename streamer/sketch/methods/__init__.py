"""The methods, by families; scheme.py finds them."""
