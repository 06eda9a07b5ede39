"""Strata in the place of torch: `import torch` and `import torch.nn.functional as F` give Strata's modules.

    python -m strata.torch train.py --epochs 3     # runs a program as it is
    import strata.torch_alias                      # or: the first line of a program

What PyTorch has and Strata lacks can be imported; it raises NotImplementedError when it is called, and says what to use
instead. docs/usage/torch_programs.md has the details.
"""

__all__ = ["install", "is_installed"]


def install():
    """Makes `torch`, `torch.*` and `torchvision` names of Strata in this process, and types print with torch's names.

    Raises RuntimeError if PyTorch itself has been imported already.
    """
    from ._finder import install

    install()


def is_installed():
    """Whether this process has Strata in the place of torch."""
    from ._finder import is_installed

    return is_installed()
