"""The default generator's state, as in torch.random."""

from ._C import default_generator, manual_seed

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "fork_rng"]


def get_rng_state():
    """Seed and position of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Restores a state returned by get_rng_state()."""
    default_generator.set_state(new_state)


def initial_seed():
    """The seed in use."""
    return default_generator.initial_seed()


def seed():
    """Sets a new seed from the system and returns it."""
    return default_generator.seed()


class fork_rng:
    """Restores the state of the default generator at the end of the with block."""

    def __init__(self, devices=None, enabled=True):
        self.enabled = enabled

    def __enter__(self):
        self.state = get_rng_state()

    def __exit__(self, *_):
        if self.enabled:
            set_rng_state(self.state)
