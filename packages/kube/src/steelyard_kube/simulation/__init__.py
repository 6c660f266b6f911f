"""Tests that every implementation of `Cluster` has to pass; they are not in the wheel."""
