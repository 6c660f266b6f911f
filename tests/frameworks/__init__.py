"""Real training with real frameworks on one machine, each of which loses a replica on the way."""
