"""Detectors: each decides from a history whether one thing is wrong."""
