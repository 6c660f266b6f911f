"""`steelyard demo`: from handwritten digits to two audits, through the client alone."""
