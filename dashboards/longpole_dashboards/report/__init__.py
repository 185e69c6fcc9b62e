"""A run as one HTML file that needs nothing else: for a postmortem, or to send to somebody."""
