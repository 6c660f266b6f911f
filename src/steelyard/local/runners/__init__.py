"""Environments of runners on this machine: installed from locks, checked, and made known to the embedded kubelet."""
