"""The pages: each has a layout and the panels that keep it up to date."""
