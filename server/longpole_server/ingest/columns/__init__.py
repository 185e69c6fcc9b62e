"""Requests as columns: many spans or points are read at once, without an object for each.

Numbers, names and attributes are found in the bytes by numpy, and become Arrow columns that the
store inserts as they are. What is rare (nested values, events, repeated keys) goes through
protobuf's own reader, and a batch that is not as expected is left to `ingest.normalize` as a whole:
both give the same records.
"""
