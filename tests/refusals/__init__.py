"""Every controller meets every way in which the API refuses what it writes: it says so, waits, and floods nothing."""
