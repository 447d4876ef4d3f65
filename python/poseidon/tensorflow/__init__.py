"""Poseidon for TensorFlow and Keras: the parts that psd_run installs when a
script imports them."""
