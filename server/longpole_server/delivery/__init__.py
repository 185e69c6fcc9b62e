"""Delivery of alerts to people: channels, messages, and what each channel answered."""
