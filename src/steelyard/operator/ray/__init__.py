"""The platform's side of Ray clusters: their dashboards made reachable, and their networks closed to others."""
