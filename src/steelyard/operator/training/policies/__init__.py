"""What a job asks of the operator: restarts, deadlines, clean-up, gangs; one file for each policy."""
