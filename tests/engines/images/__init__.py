"""Our own container images: made twice, unpacked and run without rights, and run by a real node."""
