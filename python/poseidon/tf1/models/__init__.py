"""Files that TensorFlow once had under tensorflow.models and that scripts of
that time import. One beside the script goes before them.
"""
