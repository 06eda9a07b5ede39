"""Transforms of images, under the names of torchvision.transforms.

An image is a tensor [..., channels, height, width]; ToTensor also takes NumPy arrays [height, width, channels]. Transforms marked
`batched` do the same to every image, so that a loader may apply them to a whole batch at once."""

from .. import _C
from ..nn import functional as F

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "Lambda",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Resize",
    "ToTensor",
]


def _pair(size, name):
    pair = (size, size) if isinstance(size, int) else tuple(size) * (2 if len(size) == 1 else 1)
    if len(pair) != 2 or not all(isinstance(n, int) and n > 0 for n in pair):
        raise ValueError(f"{name}: size is a positive integer or a pair (height, width), got {size!r}")
    return pair


def _check_image(image, name):
    if not isinstance(image, _C.Tensor) or image.dim() < 2:
        found = tuple(image.shape) if isinstance(image, _C.Tensor) else type(image).__name__
        raise TypeError(f"{name}: expected an image tensor [..., height, width], found {found}; ToTensor() makes one")


def _sides(padding):
    """left, top, right, bottom of a padding given as one number, a pair or all four."""
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 2:
        return (padding[0], padding[1]) * 2
    if len(padding) == 4:
        return tuple(padding)
    raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")


def _pad(image, sides, fill, mode):
    left, top, right, bottom = sides
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}
    if mode not in modes:
        raise ValueError(f"Padding mode should be either constant, edge or reflect, got {mode!r}")
    around = [left, right, top, bottom]
    if mode == "constant":
        return F.pad(image, around, value=fill)
    flat = image.reshape(-1, 1, *image.shape[-2:])  # these modes need a batch and channels
    padded = F.pad(flat.float() if not flat.is_floating_point() else flat, around, mode=modes[mode]).to(image.dtype)
    return padded.reshape(*image.shape[:-2], *padded.shape[-2:])


class Compose:
    """Applies transforms in sequence."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    @property
    def batched(self):
        return all(getattr(t, "batched", False) for t in self.transforms)

    def __call__(self, image):
        for t in self.transforms:
            image = t(image)
        return image

    def __repr__(self):
        return "Compose(" + ", ".join(map(repr, self.transforms)) + ")"


class _Transform:
    batched = False

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class ToTensor(_Transform):
    """To float32 between 0 and 1, from uint8; arrays [height, width(, channels)] become [channels, height, width]."""

    batched = True

    def __call__(self, image):
        if not isinstance(image, _C.Tensor):
            image = _C.as_tensor(image)
            if image.dim() not in (2, 3):
                raise ValueError(f"ToTensor: an image array has 2 or 3 dimensions, found {image.dim()}")
            image = image.unsqueeze(0) if image.dim() == 2 else image.permute(2, 0, 1).contiguous()
        return ConvertImageDtype(_C.float32)(image) if image.dtype is _C.uint8 else image


class ConvertImageDtype(_Transform):
    """To another dtype; the range of integers becomes 0 to 1 and back."""

    batched = True

    def __init__(self, dtype=_C.float32):
        self.dtype = dtype

    def __call__(self, image):
        _check_image(image, "ConvertImageDtype")
        source, target = image.dtype, self.dtype
        if source is target:
            return image
        if source.is_floating_point and target.is_floating_point:
            return image.to(target)
        if not source.is_floating_point and not target.is_floating_point:
            raise NotImplementedError(f"ConvertImageDtype: {source} to {target}; go through float32")
        if target.is_floating_point:
            return image.to(target).div_(_largest(source))
        return image.mul(_largest(target) + 1.0 - 1e-3).to(target)


def _largest(dtype):
    return float(2 ** (8 * dtype.itemsize - dtype.is_signed) - 1)


class Normalize(_Transform):
    """(image - mean) / std for each channel."""

    batched = True

    def __init__(self, mean, std, inplace=False):
        self.mean, self.std = ([v] if isinstance(v, (int, float)) else list(v) for v in (mean, std))
        self.inplace = inplace
        if any(s == 0 for s in self.std):
            raise ValueError("Normalize: std evaluated to zero, leading to division by zero.")

    def __call__(self, image):
        _check_image(image, "Normalize")
        if not image.is_floating_point():
            raise TypeError(
                f"Input tensor should be a float tensor. Got {image.dtype}; put ToTensor() before Normalize()"
            )
        mean, std = (_C.tensor(v, dtype=image.dtype).reshape(-1, 1, 1) for v in (self.mean, self.std))
        return (image.sub_(mean) if self.inplace else image.sub(mean)).div_(std)


class Pad(_Transform):
    """Adds a border: one width, (left/right, top/bottom), or (left, top, right, bottom)."""

    batched = True

    def __init__(self, padding, fill=0, padding_mode="constant"):
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode
        _sides(padding)

    def __call__(self, image):
        _check_image(image, "Pad")
        return _pad(image, _sides(self.padding), self.fill, self.padding_mode)


class CenterCrop(_Transform):
    """The middle of the image; a smaller one is padded with zeros."""

    batched = True

    def __init__(self, size):
        self.size = _pair(size, "CenterCrop")

    def __call__(self, image):
        _check_image(image, "CenterCrop")
        (height, width), (h, w) = self.size, image.shape[-2:]
        if height > h or width > w:
            x, y = max(width - w, 0), max(height - h, 0)
            image = _pad(image, (x // 2, y // 2, (x + 1) // 2, (y + 1) // 2), 0, "constant")
            h, w = image.shape[-2:]
        top, left = round((h - height) / 2), round((w - width) / 2)
        return image[..., top : top + height, left : left + width]


class Resize(_Transform):
    """To (height, width), or to this length of the shorter side. Antialiased, as torchvision does by default."""

    batched = True

    def __init__(self, size, interpolation="bilinear", max_size=None, antialias=True):
        self.size = size if isinstance(size, int) else _pair(size, "Resize")
        if isinstance(size, int) and size <= 0:
            raise ValueError(f"Resize: size is positive, got {size}")
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError(f"Resize: interpolation is 'nearest', 'bilinear' or 'bicubic', got {interpolation!r}")
        self.interpolation, self.max_size, self.antialias = interpolation, max_size, antialias

    def __call__(self, image):
        _check_image(image, "Resize")
        h, w = image.shape[-2:]
        size = self.size
        if isinstance(size, int):
            short, long = min(h, w), max(h, w)
            other = int(size * long / short)
            if self.max_size is not None and other > self.max_size:
                size, other = int(self.max_size * size / other), self.max_size
            size = (size, other) if h <= w else (other, size)
        if size == (h, w):
            return image
        flat = image.reshape(-1, 1, h, w)
        options = {} if self.interpolation == "nearest" else dict(align_corners=False, antialias=self.antialias)
        work = flat if flat.is_floating_point() else flat.float()
        out = F.interpolate(work, size=size, mode=self.interpolation, **options)
        if not flat.is_floating_point():
            out = out.round().clamp(0, _largest(image.dtype)).to(image.dtype)
        return out.reshape(*image.shape[:-2], *size)


class RandomCrop(_Transform):
    """Crops at a random position, after padding."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        self.size, self.padding, self.pad_if_needed = _pair(size, "RandomCrop"), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def __call__(self, image):
        _check_image(image, "RandomCrop")
        height, width = self.size
        if self.padding is not None:
            image = _pad(image, _sides(self.padding), self.fill, self.padding_mode)
        h, w = image.shape[-2:]
        if self.pad_if_needed:
            x, y = max(width - w, 0), max(height - h, 0)
            image = _pad(image, (x, y, x, y), self.fill, self.padding_mode)
            h, w = image.shape[-2:]
        if h < height or w < width:
            raise ValueError(f"Required crop size {self.size} is larger than input image size {(h, w)}")
        top, left = (int(_C.ops["randint"](0, n + 1, (1,))) for n in (h - height, w - width))
        return image[..., top : top + height, left : left + width]


class _RandomFlip(_Transform):
    def __init__(self, p=0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is a probability, got {p}")
        self.p = p

    def __call__(self, image):
        _check_image(image, type(self).__name__)
        return image.flip(self.dim) if _C.ops["rand"](1).item() < self.p else image


class RandomHorizontalFlip(_RandomFlip):
    """Flips horizontally with probability p."""

    dim = -1


class RandomVerticalFlip(_RandomFlip):
    """Flips vertically with probability p."""

    dim = -2


class Lambda(_Transform):
    """Any function."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, image):
        return self.lambd(image)
