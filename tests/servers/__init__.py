"""Attacks on every HTTP server of Steelyard by callers that show no token."""
