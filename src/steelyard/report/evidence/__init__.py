"""Evidence beside a report or an audit: statements, signatures, verification by recomputation."""
