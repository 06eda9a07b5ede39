"""ultralytics: a YOLO network made from its description."""

import torch
from ultralytics.nn.tasks import DetectionModel

torch.manual_seed(0)
model = DetectionModel("yolov8n.yaml", nc=4, verbose=False)
batch = {
    "img": torch.rand(2, 3, 64, 64),
    "batch_idx": torch.tensor([0.0, 1.0]),
    "cls": torch.tensor([[1.0], [2.0]]),
    "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.4, 0.6, 0.3, 0.5]]),
}
assert isinstance(model(batch["img"]), (dict, list, tuple))
with torch.no_grad():
    found = model.eval()(batch["img"])
assert found[0].shape == (2, 8, 84)
