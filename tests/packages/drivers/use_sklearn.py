"""scikit-learn: estimators and metrics with array API dispatch take tensors and return tensors."""

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn requires it for dispatch; read when SciPy is imported
for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
    del sys.modules[name]  # scikit-learn must meet the tensors as Strata's own, not as PyTorch's

import numpy as np
import sklearn
import strata
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error, r2_score
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances, rbf_kernel
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

rng = np.random.default_rng(0)
x = rng.normal(size=(60, 5))
y = x @ rng.normal(size=5) + 0.1 * rng.normal(size=60)
label = (y > 0).astype(np.int64)
t, u, v = strata.from_numpy(x), strata.from_numpy(y), strata.from_numpy(label)


def same(ours, theirs):
    """Tensors, with the values that scikit-learn computes from NumPy's arrays."""
    assert isinstance(ours, strata.Tensor), type(ours)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-7, atol=1e-9)


def both(compute, *tensors):
    """A computation with dispatch on tensors, and without on arrays."""
    with sklearn.config_context(array_api_dispatch=True):
        ours = compute(*tensors)
    return ours, compute(*(w.numpy() for w in tensors))


for scaler in (MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler):
    same(*both(lambda a, make=scaler: make().fit_transform(a), t))
same(*both(lambda a: abs(PCA(n_components=2, svd_solver="full").fit_transform(a)), t))
same(*both(lambda a, b: Ridge(solver="svd").fit(a, b).predict(a), t, u))
same(*both(lambda a, b: LinearDiscriminantAnalysis().fit(a, b).decision_function(a), t, v))
same(*both(lambda a, b: LinearDiscriminantAnalysis().fit(a, b).predict(a), t, v))
for kernel in (cosine_similarity, euclidean_distances, rbf_kernel):
    same(*both(kernel, t))
for metric in (mean_absolute_error, mean_squared_error, r2_score):
    ours, theirs = both(lambda a, b, f=metric: f(a, b), u, u + 0.1)
    assert abs(float(ours) - theirs) < 1e-9
ours, theirs = both(accuracy_score, v, v * 0 + 1)
assert abs(float(ours) - theirs) < 1e-6
