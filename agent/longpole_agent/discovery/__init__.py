"""Finds the pages of engines that nobody registered: on this node's ports, and in its pods."""
