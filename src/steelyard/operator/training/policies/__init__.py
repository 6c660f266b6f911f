"""Policies of a running job: restarts, deadlines, clean-up, gangs; one file for each."""
