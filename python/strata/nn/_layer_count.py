"""How many layers a module of layers may have."""

MAX_LAYERS = 10_000  # each is made at once; far more would take all memory, and minutes to find out


def check_layers(count, module):
    """Refuses a count of layers that no machine can hold."""
    if count > MAX_LAYERS:
        raise ValueError(f"{module}: num_layers is {count}; at most {MAX_LAYERS} are possible")
