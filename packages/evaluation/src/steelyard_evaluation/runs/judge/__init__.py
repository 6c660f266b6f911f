"""Judge models: what they are asked, what their verdicts are, and how a verdict can be checked later."""
