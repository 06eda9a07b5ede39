"""fastai: a Learner trains a small network with one-cycle schedules."""

import fastai.callback.schedule  # noqa: F401  (adds fit_one_cycle)
import torch
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.metrics import accuracy

torch.manual_seed(0)
x = torch.randn(96, 4)
pairs = [(a, int(a.sum() > 0)) for a in x]
loaders = DataLoaders(DataLoader(pairs, bs=16, shuffle=True, num_workers=0), DataLoader(pairs, bs=16, num_workers=0))
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
learner = Learner(loaders, model, loss_func=torch.nn.CrossEntropyLoss(), metrics=accuracy)
with learner.no_bar(), learner.no_logging():
    before = learner.validate()
    learner.fit_one_cycle(6, 0.03)
    after = learner.validate()
assert after[0] < before[0] and after[1] > 0.85, (before, after)
