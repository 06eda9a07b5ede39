"""skorch: a network in scikit-learn's pipelines and searches."""

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier


class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(120, 4)).astype(np.float32)
y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
net = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=15, lr=0.05, optimizer=torch.optim.Adam, verbose=0
)
pipeline = make_pipeline(StandardScaler(), net).fit(x, y)
assert pipeline.score(x, y) > 0.9
search = GridSearchCV(net, {"module__width": [4, 8]}, cv=2, scoring="accuracy").fit(x, y)
assert search.best_score_ > 0.7 and net.predict_proba is not None
