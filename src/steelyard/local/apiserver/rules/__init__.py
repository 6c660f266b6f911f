"""How the built-in kinds are made whole and checked, one module per family of kinds, as the real server does it."""
