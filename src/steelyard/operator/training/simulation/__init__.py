"""In-memory runs of training jobs for tests; they are not in the wheel."""
