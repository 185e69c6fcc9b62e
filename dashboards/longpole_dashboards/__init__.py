"""The dashboards: pages that say what a training loop waits for, live."""
