import functools


class DistProfiler:
    @classmethod
    def annotate(cls, color=None, **outer):
        def decorator(method):
            @functools.wraps(method)
            def wrapper(self, *args, **kwargs):
                return method(self, *args, **kwargs)

            return wrapper

        return decorator
