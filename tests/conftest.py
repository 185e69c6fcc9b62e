from hypothesis import settings

# No test depends on timing: a busy machine makes any example slow.
settings.register_profile("longpole", deadline=None)
settings.load_profile("longpole")
