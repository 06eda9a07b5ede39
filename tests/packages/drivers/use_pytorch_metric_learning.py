"""pytorch-metric-learning: losses, miners and distances."""

import torch
from pytorch_metric_learning import distances, losses, miners

torch.manual_seed(0)
x, labels = torch.randn(8, 4, requires_grad=True), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
pairs = miners.TripletMarginMiner(margin=0.2, type_of_triplets="all")(x, labels)
for loss in (losses.TripletMarginLoss(), losses.NTXentLoss(), losses.ContrastiveLoss(), losses.SupConLoss()):
    x.grad = None
    loss(x, labels, pairs if isinstance(loss, losses.TripletMarginLoss) else None).backward()
    assert x.grad.abs().sum() > 0
found = distances.CosineSimilarity()(x)
assert torch.allclose(found.diagonal(), torch.ones(8), atol=1e-5)
