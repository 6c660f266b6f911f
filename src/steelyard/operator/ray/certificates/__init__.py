"""Certificates of Ray clusters: authorities that follow from one key and the time, and what they sign."""
