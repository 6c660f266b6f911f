"""Coverage of every interval that Steelyard prints, by simulation."""
