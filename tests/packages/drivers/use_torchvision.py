"""torchvision: models, ops, transforms and detection."""

import torch
import torchvision
from torchvision import ops
from torchvision.transforms import v2

torch.manual_seed(0)
model = torchvision.models.resnet18(weights=None, num_classes=3)
x, y = torch.randn(4, 3, 48, 48), torch.tensor([0, 1, 2, 0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses = []
for _ in range(6):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses

boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
assert ops.nms(boxes, torch.tensor([0.8, 0.9, 0.7]), 0.5).tolist() == [1, 2]
assert ops.MultiScaleRoIAlign(["a"], 3, 2)({"a": torch.randn(1, 4, 16, 16)}, [boxes], [(32, 32)]).shape == (3, 4, 3, 3)
change = v2.Compose(
    [v2.Resize((20, 24), antialias=True), v2.RandomHorizontalFlip(1.0), v2.Normalize([0.5] * 3, [0.2] * 3)]
)
image = torch.rand(3, 40, 48)
want = (torch.nn.functional.interpolate(image[None], (20, 24), mode="bilinear", antialias=True)[0].flip(-1) - 0.5) / 0.2
assert torch.allclose(change(image), want, atol=1e-4)
detector = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=96
)
target = [{"boxes": torch.tensor([[5.0, 5, 60, 70]]), "labels": torch.tensor([1])}]
found = detector([torch.rand(3, 96, 96)], target)
sum(found.values()).backward()
assert set(found) == {"loss_classifier", "loss_box_reg", "loss_objectness", "loss_rpn_box_reg"}
assert set(detector.eval()([torch.rand(3, 96, 96)])[0]) == {"boxes", "labels", "scores"}
