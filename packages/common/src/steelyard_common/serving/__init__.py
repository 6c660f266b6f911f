"""Conditions of every HTTP server of Steelyard for its callers: bounds of size, number and time, and a known Host."""
