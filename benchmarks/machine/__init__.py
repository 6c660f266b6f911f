"""One machine: how long the example takes, and what `steelyard up` costs."""
