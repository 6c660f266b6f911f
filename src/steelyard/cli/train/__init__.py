"""`steelyard train`: training jobs, on this machine or on a cluster."""
