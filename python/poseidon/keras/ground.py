"""What Keras stands on. The adapter of that framework gives a module, `now`,
that has

  plain(function)      a wrapper of ours, marked so that nobody compiles it
  join()               open the session; collective
  raw(variable)        the framework's own variable; None: there is none
  key(raw)             what tells variables apart
  is_number(raw)       is it made of integers or floats?
  is_float(raw)
  read(raw)            a numpy array, a copy
  write(raw, array)
  batch(batch)         a context: a step on this rows.Batch; None: on a batch
                       of this worker alone
  tell(logs)           what Keras says of a batch that has ended
  loaded()             values came from elsewhere: all are to be equal again
  alone()              a context: only this worker does what is done in it
"""
now = None


def use(module):
    global now
    now = module
