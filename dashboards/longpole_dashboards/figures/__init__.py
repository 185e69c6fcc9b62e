"""Figures: model types in, a `Figure` out. Nothing here reads or waits."""
