"""Imports: processor time and memory of a fresh interpreter."""
