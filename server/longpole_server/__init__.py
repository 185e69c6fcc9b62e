"""The Longpole server: takes telemetry in, stores it, and says what the training loop waits for."""
