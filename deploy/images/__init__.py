"""Makes the images of a release as OCI archives, without a registry, a container daemon and root.

`python -m deploy.images` is the program. An image has three layers: Python from Debian's packages (`debian.py`), the
locked dependencies of its purpose (`dependencies.py`), and our own wheels (`own.py`). `layers.py` packs folders,
`archive.py` writes archives, `statements.py` says what an image consists of and how it was made.
"""
