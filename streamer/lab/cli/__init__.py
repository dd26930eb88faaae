"""The commands of the laboratory, one a module."""
