"""The same requests to the embedded Kubernetes and to a real one; every difference is printed, accepted or mended."""
