"""Evaluation: every method over the same labelled pages, through the real stream code."""
