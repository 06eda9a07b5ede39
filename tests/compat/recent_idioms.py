"""Idioms of tutorials and forum answers, for idioms.py: hooks, parametrizations, sparse, nested and complex tensors, windows, files."""

RECENT = r"""
from torch.nn.modules.module import register_module_forward_hook; seen = []; h = register_module_forward_hook(lambda m, i, o: seen.append(type(m).__name__)); nn.Sequential(nn.ReLU(), nn.Tanh())(torch.ones(1)); h.remove(); seen
m = nn.Identity(); order = []; m.register_forward_hook(lambda *a: order.append(1)); m.register_forward_hook(lambda *a: order.append(2), prepend=True); m(torch.ones(1)); order
m = nn.Linear(1, 1); nn.init.ones_(m.weight); nn.init.zeros_(m.bias); m.register_forward_pre_hook(lambda m, i: (i[0] * 2,)); m(torch.ones(1, 1)).item()
g = []; m = nn.Linear(2, 1); m.register_full_backward_hook(lambda m, gi, go: g.append(go[0])); m(torch.ones(1, 2, requires_grad=True)).sum().backward(); g
from torch.autograd.graph import register_multi_grad_hook; a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True); s = []; register_multi_grad_hook((a, b), lambda gs: s.append([x.item() for x in gs])); (a * 2 + b * 3).backward(); s
from torch.autograd.graph import get_gradient_edge; a = torch.ones(1, requires_grad=True); e = get_gradient_edge(a * 2); e.node.name(), e.output_nr
type((torch.ones(1, requires_grad=True) * 2).grad_fn).__name__
exec("class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, factor, opts):\n        ctx.factor = factor\n        return x * factor\n    @staticmethod\n    def backward(ctx, g):\n        return g * ctx.factor, None, None"); y = Twice.apply(torch.ones(1, requires_grad=True), 2, {"a": 1}); y, y.grad_fn.name(), type(y.grad_fn).__name__
import torch.nn.utils.parametrize as P; exec("class Sym(nn.Module):\n    def forward(self, x):\n        return x.triu() + x.triu(1).mT"); m = nn.Linear(2, 2); nn.init.ones_(m.weight); P.register_parametrization(m, "weight", Sym()); m.weight, sorted(m.state_dict())
from torch.nn.utils.clip_grad import clip_grad_norm_; p = nn.Parameter(torch.tensor([1 + 1j])); p.grad = torch.tensor([3 + 4j]); clip_grad_norm_([p], 1.0), p.grad
s = nn.DataParallel(nn.Linear(1, 1)).state_dict(); nn.modules.utils.consume_prefix_in_state_dict_if_present(s, "module."); list(s)
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.5); o.register_state_dict_post_hook(lambda o, s: {**s, "epoch": 3}); o.state_dict()["epoch"]
from torch.nn.modules.pooling import _MaxPoolNd; isinstance(nn.MaxPool1d(2), _MaxPoolNd), isinstance(nn.AvgPool1d(2), _MaxPoolNd)
from torch.nn.modules.rnn import RNNCellBase; issubclass(nn.GRUCell, RNNCellBase)
m = nn.Linear(2, 1, dtype=torch.cfloat); nn.init.ones_(m.weight); nn.init.zeros_(m.bias); m(torch.tensor([1 + 1j, 2.0])).item()
m = nn.Linear(2, 1).to(torch.complex64); m.weight.dtype
p = nn.Parameter(torch.tensor([1 + 2j])); o = torch.optim.Adam([p], lr=0.1); (p.abs() ** 2).sum().backward(); o.step(); p
p = nn.Parameter(torch.tensor([1 + 2j])); o = torch.optim.SGD([p], lr=0.1, momentum=0.9); (p.abs() ** 2).sum().backward(); o.step(); p
torch.kaiser_window(5, periodic=False, beta=3.0), torch.kaiser_window(4)
torch.signal.windows.gaussian(5, std=2.0), torch.signal.windows.nuttall(4, sym=False)
torch.signal.windows.general_cosine(4, a=[0.5, 0.5]), torch.signal.windows.exponential(3, tau=2.0)
torch.sparse.spdiags(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), (2, 2)).to_dense()
s = torch.eye(2).to_sparse(); torch.stack([s, s]).shape, s.unsqueeze(0).shape, s.unsqueeze(0).to_dense()
torch.zeros(2, 2).to_sparse()
torch.eye(2).to_sparse_csr()
torch.tensor([[0, 1.0], [2, 0]]).to_sparse()
torch.nested.masked_select(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[True, False], [True, True]])).unbind()
torch.nested.nested_tensor([torch.ones(2, 1), torch.ones(1, 1)]).to_padded_tensor(0.0).shape
torch.testing.assert_close({"a": torch.ones(1)}, {"a": torch.ones(1)})
torch.testing.assert_close(torch.tensor([1 + 1j]), torch.tensor([1 + 2j]))
torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu", low=0, high=1).shape
from torch.utils.benchmark import Timer; Timer("x + 1", globals={"x": torch.ones(1)}).timeit(10).number_per_run
from torch.utils.data._utils.collate import collate, default_collate_fn_map; exec("class C:\n    pass"); collate([C(), C()], collate_fn_map={**default_collate_fn_map, C: lambda b, *, collate_fn_map=None: len(b)})
torch.__version__ > "2.2", torch.__version__ >= (2, 1), torch.__version__ < "2.100"
from torch.nn.attention import SDPBackend, sdpa_kernel; exec("with sdpa_kernel(SDPBackend.MATH):\n    y = F.scaled_dot_product_attention(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))"); y.shape
exec("try:\n    torch.linalg.inv(torch.zeros(2, 2))\nexcept torch.linalg.LinAlgError:\n    r = 'singular'"); r
exec("try:\n    torch.linalg.cholesky(-torch.eye(2))\nexcept torch.linalg.LinAlgError:\n    r = 'not positive'"); r
torch.linalg.eigh(torch.eye(2)), torch.linalg.slogdet(torch.eye(2))
torch.set_printoptions(sci_mode=False); torch.set_printoptions(precision=4); torch.tensor([1e-6])
torch.select_copy(torch.eye(2), 0, 1), torch.slice_copy(torch.arange(5), 0, 1, 4, 2), torch.detach_copy(torch.ones(1))
torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(1),))
torch.sym_max(1, 2.5), torch.sym_not(True), torch.sym_float(3), torch.sym_sum([1, 2])
torch.ones(2).polygamma(1), torch.ones(1).cfloat(), torch.ones(2).map2_(torch.ones(2), torch.ones(2), lambda a, b, c: a + b + c)
torch.UntypedStorage(3).fill_(2).tolist(), torch.FloatStorage([1, 2])
import torch.library; l = torch.library.Library("recent", "DEF"); l.define("twice(Tensor x) -> Tensor"); l.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd"); torch.ops.recent.twice(torch.ones(1))
exec("class Bad:\n    pass"); Bad.__module__ = "nowhere"; f = io.BytesIO(); torch.save(torch.ones(1), f); f.seek(0); torch.load(f, weights_only=True)
x = torch.zeros(3, 4); x[[0, 2], [0, 3]] = torch.tensor([7.0, 8.0]); x[torch.tensor([True, False, True])] *= 2; x
x = torch.arange(24).view(2, 3, 4); x[torch.tensor([0, 1]), :, torch.tensor([1, 2])], x[:, None, [0, 1]].shape, x[None, ..., ::2].shape
g = torch.ones(3, 3, requires_grad=True); h = g.clone(); h[0, 1:] = 0; h[h > 0] *= 3; h.sum().backward(); g.grad
a = torch.arange(6.0).view(2, 3); a.t()[0] = -1; a.view(-1)[::2].mul_(10); a.diagonal().zero_(); a
torch.einsum("b...d,d->b...", torch.ones(2, 3, 4), torch.arange(4.0)), torch.einsum(torch.ones(2, 3), [0, 1], torch.ones(3, 2), [1, 2], [0, 2])
torch.func.vmap(torch.func.grad(lambda w, x: (w * x).sum() ** 2), in_dims=(None, 0))(torch.ones(2), torch.arange(4.0).view(2, 2))
torch.func.vmap(lambda d: d["a"] + d["b"][0], in_dims=({"a": 0, "b": (None,)},))({"a": torch.arange(3.0), "b": (torch.tensor(1.0),)})
d = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1); d.log_prob(torch.zeros(2)), d.event_shape
torch.distributions.kl_divergence(torch.distributions.Gamma(1.0, 2.0), torch.distributions.Gamma(2.0, 3.0))
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2); [(o.step(), s.step(), round(o.param_groups[0]["lr"], 4))[2] for _ in range(5)]
n = nn.Sequential(nn.Linear(2, 2), nn.ReLU()); g = torch.fx.symbolic_trace(n); [x.op for x in g.graph.nodes], g.code.strip()
m = nn.Linear(1, 1); m.register_buffer("t", torch.ones(1), persistent=False); "t" in m.state_dict(), "t" in dict(m.named_buffers())
t = nn.Module(); t.a = nn.Embedding(3, 2); t.b = nn.Linear(2, 3, bias=False); t.b.weight = t.a.weight; len(list(t.parameters())), list(t.state_dict())
"""
