"""The Helm chart: its templates, and the platform that it installs on a real node."""
