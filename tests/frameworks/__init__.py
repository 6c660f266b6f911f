"""Real training with real frameworks on one machine; each job loses a replica on the way."""
