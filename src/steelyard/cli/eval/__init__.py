"""`steelyard eval`: evaluations of any OpenAI-compatible endpoint from this machine, without a platform."""
