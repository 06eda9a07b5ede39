"""torch.utils.model_zoo: the older name of torch.hub.load_state_dict_from_url."""

from ..torch.hub import load_state_dict_from_url

load_url = load_state_dict_from_url
__all__ = ["load_url"]
