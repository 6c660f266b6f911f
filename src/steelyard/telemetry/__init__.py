"""Reports of a process about itself: metrics and health on a port of its own, and traces."""
