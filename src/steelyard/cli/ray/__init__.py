"""The groups `steelyard ray`, `steelyard queue` and `steelyard appwrapper`, over the cluster client."""
