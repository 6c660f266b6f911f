"""Steelyard on one machine: the embedded Kubernetes, its kubelet, and `steelyard up`."""
