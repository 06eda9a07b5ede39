"""The maximum number of layers of a module."""

MAX_LAYERS = 10_000  # all are created at once; more would exhaust the memory after minutes


def check_layers(count, module):
    """Rejects a number of layers that no machine can hold."""
    if count > MAX_LAYERS:
        raise ValueError(f"{module}: num_layers is {count}; at most {MAX_LAYERS} are possible")
