"""The commands of analysis."""
