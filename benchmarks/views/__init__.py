"""The view on one machine: how long a look takes, and how fast it is filled."""
