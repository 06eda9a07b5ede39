"""Where programs import InferenceSession from, besides the top."""


def __getattr__(name):
    if name in ("InferenceSession", "IOBinding", "OrtValue", "Session"):
        import importlib

        return getattr(importlib.import_module("..", __package__), "InferenceSession" if name == "Session" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
