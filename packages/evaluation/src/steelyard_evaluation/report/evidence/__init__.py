"""Evidence for a report or an audit: statements, signatures, verification by recomputation."""
