"""The error of everything that keeps an image from being made."""


class ImageError(Exception):
    """An image cannot be made; the message says why."""
