"""Poseidon in Python. The frameworks have a module each: poseidon.torch."""
__version__ = "0.1.0"
