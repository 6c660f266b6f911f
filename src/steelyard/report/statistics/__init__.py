"""Statistics of scores: intervals, clusters, calibration, power, rankings."""
