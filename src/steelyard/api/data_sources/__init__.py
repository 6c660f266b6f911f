"""Data sources: places outside the platform that datasets are made from."""
