"""Alert rules, detectors and the life of an alert: pure, without clock, store or HTTP."""
