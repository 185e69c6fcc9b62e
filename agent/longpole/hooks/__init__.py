"""Hooks into training frameworks: what they run is recorded without changes to people's code."""
