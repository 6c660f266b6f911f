"""How often each interval that Steelyard prints holds the truth, by simulation."""
