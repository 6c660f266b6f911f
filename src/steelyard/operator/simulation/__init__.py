"""In-memory runs of the operator for tests; they are not in the wheel."""
