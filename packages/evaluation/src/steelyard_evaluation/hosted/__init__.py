"""Hosted models: what calls may cost, the spending so far, and how fast the provider is asked."""
