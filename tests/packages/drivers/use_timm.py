"""timm: models by name, features, optimizers and schedules."""

import timm
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

torch.manual_seed(0)
model = timm.create_model("resnet18", num_classes=3)
x, y = torch.randn(6, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1, 2])
for name in ("adamw", "lamb", "lion", "adafactor", "madgrad", "nadamw"):
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-3, weight_decay=0.01)
    before = torch.nn.functional.cross_entropy(model(x), y)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert torch.isfinite(before)
schedule, _ = timm.scheduler.create_scheduler_v2(optimizer, sched="cosine", num_epochs=10, warmup_epochs=2)
schedule.step(1)
maps = timm.create_model("efficientnet_b0", features_only=True, pretrained=False)(torch.randn(1, 3, 64, 64))
assert [m.shape[-1] for m in maps] == [32, 16, 8, 4, 2]
vit = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=0)
assert vit(torch.randn(2, 3, 32, 32)).shape == (2, 192)
loss = timm.loss.LabelSmoothingCrossEntropy(0.1)(torch.zeros(2, 4), torch.tensor([1, 2]))
assert abs(loss.item() - torch.log(torch.tensor(4.0)).item()) < 1e-6
ema = timm.utils.ModelEmaV2(model, decay=0.5)
ema.update(model)
assert len(timm.list_models("resnet*")) > 50
