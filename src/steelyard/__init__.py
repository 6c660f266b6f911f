"""Steelyard: train, serve, evaluate and audit AI systems, on Kubernetes or on one machine."""

__version__ = "0.1.0"
