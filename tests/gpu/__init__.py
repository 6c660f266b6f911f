"""GPUs of one machine: the same tests on a double of NVIDIA's library everywhere, and on real ones by make test-gpu."""
