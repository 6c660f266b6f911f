"""Benchmarks of the embedded Kubernetes: Jobs, reads and writes beside a real API server, and ten thousand Jobs."""
