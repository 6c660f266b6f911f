"""The battery: modules of cases by what they are about."""
