"""segmentation-models-pytorch: networks, a loss and a score."""

import segmentation_models_pytorch as smp
import torch

torch.manual_seed(0)
x, mask = torch.randn(2, 3, 64, 64), (torch.rand(2, 1, 64, 64) > 0.5).float()
loss = smp.losses.DiceLoss("binary")
for kind in (smp.Unet, smp.FPN, smp.DeepLabV3Plus):
    model = kind("resnet18", encoder_weights=None, in_channels=3, classes=1)
    out = model(x)
    loss(out, mask).backward()
    assert out.shape == (2, 1, 64, 64) and model.encoder.conv1.weight.grad.abs().sum() > 0
assert loss(mask * 200 - 100, mask).item() < 1e-3
counts = smp.metrics.get_stats(mask.long(), mask.long(), mode="binary")
assert abs(smp.metrics.iou_score(*counts, reduction="micro").item() - 1) < 1e-6
