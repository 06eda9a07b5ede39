"""Grids of images and PNG files, under the names of torchvision.utils."""

import math

from .. import _C

__all__ = ["make_grid", "save_image"]


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """One image of a batch [n, channels, height, width]: nrow images per row, with a border of `padding` pixels."""
    if isinstance(tensor, (list, tuple)):
        tensor = _C.ops["stack"](list(tensor))
    images = tensor.detach()
    if images.dim() == 2:
        images = images.unsqueeze(0)
    if images.dim() == 3:
        images = images.unsqueeze(0)
    if images.dim() != 4:
        raise ValueError(f"make_grid: expected images [n, channels, height, width], found shape {list(tensor.shape)}")
    if images.shape[1] == 1:
        images = images.expand(-1, 3, -1, -1)
    if normalize:
        images = _scaled(images, value_range, scale_each)
    n, channels, height, width = images.shape
    if n == 1:
        return images[0].clone()
    columns = min(nrow, n)
    rows = math.ceil(n / columns)
    height, width = height + padding, width + padding
    grid = images.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for i in range(n):
        y, x = divmod(i, columns)
        place = grid.narrow(1, y * height + padding, height - padding).narrow(2, x * width + padding, width - padding)
        place.copy_(images[i])
    return grid


def _scaled(images, value_range, scale_each):
    """Images with values from 0 to 1."""
    dims = (1, 2, 3) if scale_each else (0, 1, 2, 3)
    if value_range is None:
        low, high = images.amin(dims, keepdim=True), images.amax(dims, keepdim=True)
        return (images - low) / (high - low).clamp(min=1e-5)
    low, high = value_range
    return (images.clamp(low, high) - low) / max(high - low, 1e-5)


def save_image(tensor, fp, format=None, **options):
    """Writes a batch of images with values from 0 to 1 as a grid, in the PNG format."""
    from ..utils.tensorboard.writer import _png

    name = str(getattr(fp, "name", fp))
    if not hasattr(fp, "write") and (format or name.rpartition(".")[2]).lower() != "png":
        raise ValueError(f"save_image: found the name '{name}'; only .png files are written")
    grid = make_grid(tensor, **options)
    pixels = grid.mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0).to("cpu", _C.uint8).contiguous().numpy()
    if hasattr(fp, "write"):
        fp.write(_png(pixels))
    else:
        with open(fp, "wb") as f:
            f.write(_png(pixels))
