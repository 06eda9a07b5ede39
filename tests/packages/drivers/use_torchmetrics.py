"""torchmetrics: metrics with known values, updated in batches."""

import torch
import torchmetrics
from torchmetrics import classification, regression

pred, true = torch.tensor([0, 2, 1, 2, 0, 1]), torch.tensor([0, 1, 1, 2, 0, 2])
accuracy = classification.MulticlassAccuracy(num_classes=3, average="micro")
for part in (slice(0, 3), slice(3, 6)):
    accuracy.update(pred[part], true[part])
assert abs(accuracy.compute().item() - 4 / 6) < 1e-6
matrix = classification.MulticlassConfusionMatrix(num_classes=3)(pred, true)
assert matrix.tolist() == [[2, 0, 0], [0, 1, 1], [0, 1, 1]]
scores, labels = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
assert abs(classification.BinaryAUROC()(scores, labels).item() - 0.75) < 1e-6
assert abs(classification.BinaryAveragePrecision()(scores, labels).item() - 0.8333333) < 1e-5
f1 = classification.MulticlassF1Score(num_classes=3, average="macro")(pred, true)
assert abs(f1.item() - (1 + 0.5 + 0.5) / 3) < 1e-6
assert abs(regression.MeanSquaredError()(torch.tensor([1.0, 2]), torch.tensor([2.0, 4])).item() - 2.5) < 1e-6
assert abs(regression.PearsonCorrCoef()(torch.arange(5.0), torch.arange(5.0) * 2 + 1).item() - 1) < 1e-5
group = torchmetrics.MetricCollection([torchmetrics.MeanMetric(), torchmetrics.MaxMetric()])
group.update(torch.tensor([1.0, 2.0, 6.0]))
assert {k: v.item() for k, v in group.compute().items()} == {"MeanMetric": 3.0, "MaxMetric": 6.0}
image = torch.rand(1, 3, 32, 32)
assert abs(torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)(image, image).item() - 1) < 1e-5
