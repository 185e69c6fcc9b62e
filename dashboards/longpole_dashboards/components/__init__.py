"""Pieces of the interface that several pages use. Data in, components out."""
