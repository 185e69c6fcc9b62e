import signal

from hypothesis import settings

# No test depends on timing: a busy machine makes any example slow.
settings.register_profile("longpole", deadline=None)
settings.load_profile("longpole")

# Started in the background of a shell, pytest ignores Ctrl-C, and so would the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
