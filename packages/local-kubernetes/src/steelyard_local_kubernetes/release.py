"""The release of Kubernetes whose behaviour is kept, as the API server and the node say it."""

KUBERNETES = "v1.34.4+steelyard"
"""A version as clients parse it; the suffix distinguishes it from a real server's, as those of other distributions
do."""
