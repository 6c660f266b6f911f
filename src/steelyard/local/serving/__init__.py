"""Model servers as processes of one command: started, watched, started again, and ended with all that they began."""
