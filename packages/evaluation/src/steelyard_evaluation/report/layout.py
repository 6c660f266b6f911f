"""Names of a report's files, and of a column of its scores. Audits and checks read them without the scoring."""

SCORES = "scores.parquet"
NUMBERS = "report.json"
PAGE = "report.html"
CLUSTER = "_cluster_"
"""Column of scores with the number of the row's cluster; absent where rows have no clusters."""
