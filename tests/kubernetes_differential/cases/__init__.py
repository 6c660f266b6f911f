"""Cases by subject; each file has a list `CASES`."""
