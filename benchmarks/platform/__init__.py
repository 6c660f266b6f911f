"""The platform on one machine: what the API costs, how long each hop of a workflow takes, and memory."""
