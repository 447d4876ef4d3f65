"""Poseidon for Keras, whatever framework it runs on: what the adapters of
TensorFlow and PyTorch have in common."""
