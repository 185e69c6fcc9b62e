"""Figures: model types in, `plotly.graph_objects.Figure` out. Nothing here reads or waits."""
