"""The pieces of tf.contrib, one module a package; finder.py gives them the
names they had. They are written on compat.v1 alone, without Keras, so that
they run with every TensorFlow from 2.15 on.
"""
