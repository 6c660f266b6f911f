"""A token that an administrator gives: its form, which commands check that have no library of tokens."""

LEAST_GIVEN = 32
"""Characters of a token that an administrator chooses."""


def token_fault(token: str) -> str:
    """Say what is wrong with a token that was chosen, without repeating it; empty where nothing is."""
    if len(token) < LEAST_GIVEN:
        return f"should have at least {LEAST_GIVEN} characters, and has {len(token)}"
    if not token.isascii() or not token.isprintable() or " " in token:
        return "should be letters, digits and signs of ASCII, without blanks and line ends"
    return ""
