"""torch.utils.model_zoo: the older name of torch.hub.load_state_dict_from_url."""

from ..torch.hub import load_state_dict_from_url

load_url = load_state_dict_from_url


def __getattr__(name):
    if name == "tqdm":
        from ..torch import hub

        return hub.tqdm
    raise AttributeError(f"module 'strata.utils.model_zoo' has no attribute {name!r}")


__all__ = ["load_url"]
