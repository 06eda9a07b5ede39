"""torch.hub: entry points of a hubconf.py in a local folder; files from addresses are cached."""

import importlib.util
import os
import re
import sys
import tempfile
from urllib.parse import urlparse

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the start of the SHA-256 in a file's name
_folder = None


def __getattr__(name):
    if name == "tqdm":  # PyTorch's module has it, and a bar that prints nothing where it is not installed
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return _NoBar
        return tqdm
    raise AttributeError(f"module 'torch.hub' has no attribute {name!r}")


class _NoBar:
    """A progress bar that shows nothing."""

    def __init__(self, iterable=None, **options):
        self.iterable = iterable

    def __iter__(self):
        return iter(self.iterable)

    def update(self, n=1):
        pass

    close = refresh = set_description = update

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def _get_torch_home():
    """The folder for downloads: $TORCH_HOME, or torch in the user's cache."""
    home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache")), "torch"
    )
    return os.path.expanduser(home)


def get_dir():
    """The folder of downloaded files: $TORCH_HOME/hub, by default in ~/.cache/torch."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    """Sets the folder of downloaded files."""
    global _folder
    _folder = os.path.expanduser(d)


def _config(repo_or_dir, source):
    if source != "local":
        raise NotImplementedError(
            f"torch.hub: source={source!r} is not in this version of Strata, which runs no code from the network; clone "
            f"{repo_or_dir} and pass its folder with source='local'"
        )
    path = os.path.join(os.path.expanduser(repo_or_dir), "hubconf.py")
    if not os.path.exists(path):
        raise ValueError(f"torch.hub: there is no file '{path}'")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    return module


def _entry(module, name):
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"torch.hub: hubconf.py has no callable {name!r}")
    return entry


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True, **kwargs):
    """Calls an entry point of a local hubconf.py."""
    return _entry(_config(repo_or_dir, source), model)(*args, **kwargs)


def help(github, model, force_reload=False, source="github", trust_repo=None):
    """The docstring of an entry point."""
    return _entry(_config(github, source), model).__doc__


def list(github, force_reload=False, source="github", trust_repo=None, verbose=True):
    """The entry points of a hubconf.py."""
    module = _config(github, source)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads a file; it appears under its name when it is complete and has the expected SHA-256 prefix."""
    import hashlib
    import shutil
    from urllib.request import urlopen

    folder = os.path.dirname(os.path.abspath(dst))
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as out:
        try:
            with urlopen(url) as source:
                while piece := source.read(1 << 20):
                    out.write(piece)
                    digest.update(piece)
            if hash_prefix and digest.hexdigest()[: len(hash_prefix)] != hash_prefix:
                raise RuntimeError(
                    f"the SHA-256 of {url} is {digest.hexdigest()}, expected one that starts {hash_prefix}"
                )
            out.close()
            shutil.move(out.name, dst)
        finally:
            if os.path.exists(out.name):
                os.remove(out.name)


_download_url_to_file = download_url_to_file


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=True
):
    """The state dict in a file that is downloaded once."""
    import strata

    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found and found.group(1), progress)
    return strata.load(path, map_location=map_location, weights_only=weights_only)
