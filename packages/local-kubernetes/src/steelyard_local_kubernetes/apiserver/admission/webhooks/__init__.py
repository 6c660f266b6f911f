"""Admission webhooks: programs outside the server that change or refuse writes.

`dispatch.py` decides whom to ask, `review.py` words questions and reads answers, `calls.py` sends them.
"""
