"""Hosted models: what calls may cost, what has been spent, and how fast the provider is asked."""
