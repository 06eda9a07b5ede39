"""Settings of PyTorch that Strata accepts and that change nothing."""


class NoEffect:
    """As a call, a with block or a decorator."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, function):
        return function
