"""Less common idioms of PyTorch programs, for idioms.py: errors, func, hooks, schedulers, further modules."""

FURTHER = """
m = nn.Linear(1, 1); m.register_backward_hook(lambda *a: None); m
m = nn.Sequential(nn.BatchNorm1d(1)); [n for n, _ in m.named_buffers()]
m = nn.Linear(2, 2); nn.utils.weight_norm(m); sorted(n for n, _ in m.named_parameters())
m = nn.Linear(2, 2); torch.nn.utils.parametrizations.weight_norm(m); sorted(n for n, _ in m.named_parameters())
from torch.nn.utils import prune; m = nn.Linear(2, 2); prune.l1_unstructured(m, "weight", amount=0.5); (m.weight == 0).sum()
torch.func.grad(lambda x: (x ** 2).sum())(torch.tensor([1.0, 2.0]))
torch.func.vmap(lambda x: x * 2)(torch.arange(3))
torch.func.jacrev(lambda x: x ** 2)(torch.tensor([1.0, 2.0]))
torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1.0, 2.0]))
torch.func.vjp(lambda x: x * 2, torch.ones(2))[0]
torch.func.grad_and_value(lambda x: (x ** 2).sum())(torch.tensor([1.0, 2.0]))
torch.special.expit(torch.tensor(0.0)), torch.special.entr(torch.tensor(0.5))
torch.nn.functional.pad(torch.ones(1, 1, 2, 2), (1, 0, 0, 1), value=3)
torch.ones(2, 3).sum(dim=(0, 1))
torch.ones(2, 3).mean(0, dtype=torch.float64).dtype
torch.tensor([1.0, 2.0]).std(0, unbiased=True), torch.tensor([1.0, 2.0]).std(correction=0)
x = torch.ones(2); x.data = torch.zeros(3); x
x = torch.nn.Parameter(torch.ones(2)); x.data.copy_(torch.zeros(2)); x
torch.tensor([3, 1, 2]).argsort(stable=True)
torch.tensor([1, 2, 3])[torch.tensor([[0, 1], [1, 2]])]
x = torch.zeros(2, 3); x[:, [0, 2]] = 1; x
x = torch.zeros(3, 3); x[torch.arange(3), torch.arange(3)] = 5; x
x = torch.arange(9).view(3, 3); x[1:, 1:].tolist()
x = torch.arange(3); x[torch.tensor([], dtype=torch.long)]
torch.ones(3).index_put_((torch.tensor([0]),), torch.tensor(5.0))
torch.ones(3).put_(torch.tensor([1]), torch.tensor([9.0]))
torch.zeros(2, 2).index_copy_(0, torch.tensor([1]), torch.ones(1, 2))
torch.zeros(4).scatter_reduce_(0, torch.tensor([0, 1]), torch.tensor([2.0, 3.0]), reduce="sum")
torch.empty(3).uniform_(0, 1).shape, torch.empty(2).normal_().shape, torch.empty(2).exponential_().shape
torch.empty(2, 3).random_(0, 10).max() < 10
torch.tensor([1.0]).new_empty(2, 3).shape
torch.ones(2, device="cpu", requires_grad=True, dtype=torch.float64)
torch.ones(2, layout=torch.strided).layout == torch.strided
torch.randn(2, 3, out=torch.empty(2, 3)).shape
torch.add(torch.ones(1), 1, out=torch.empty(1))
torch.cat([torch.ones(1), torch.ones(1, dtype=torch.int64)]).dtype
torch.cat([torch.ones(0), torch.ones(2)])
torch.stack((torch.ones(1), torch.zeros(1)), 1)
torch.split(torch.arange(10).view(2, 5), [2, 3], dim=1)[1]
torch.ones(2, 3).chunk(3, dim=1)[0].shape
torch.tensor_split(torch.arange(5), 2)
x = torch.ones(1, 3, 1); torch.squeeze(x, (0, 2)).shape
torch.ones(3)[..., None].shape
torch.tensor(5)[None], torch.tensor(5)[...]
torch.eye(3).bool().any(dim=1)
torch.tensor([1, 2]).eq(torch.tensor([1, 2])).all().item()
bool((torch.tensor([1]) == 1).all())
torch.tensor([0.5]).gt(0).float()
torch.max(torch.tensor([1.0, 2.0]), dim=0, keepdim=True).values
torch.tensor([[1, 2], [3, 4]]).max(dim=-1)[1]
torch.min(torch.tensor([[1, 2], [0, 4]]), 1)[0]
torch.topk(torch.tensor([1, 3, 2]), k=2, largest=False, sorted=True)[0]
torch.tensor([1., 2., 3.]).clamp_(max=2)
torch.tensor([1., 2.]).softmax(-1), torch.tensor([1., 2.]).log_softmax(0), torch.tensor([0.]).sigmoid()
torch.tensor([4.]).sqrt_().reciprocal_()
torch.tensor([[1., 2.], [3., 4.]]).matmul(torch.tensor([1., 1.]))
torch.addbmm(torch.zeros(1, 1), torch.ones(2, 1, 1), torch.ones(2, 1, 1))
torch.baddbmm(torch.zeros(2, 1, 1), torch.ones(2, 1, 1), torch.ones(2, 1, 1)).sum()
torch.linalg.qr(torch.eye(2))[1]
torch.linalg.cholesky(torch.eye(2) * 4)
torch.linalg.lstsq(torch.eye(2), torch.ones(2, 1)).solution
torch.linalg.matrix_norm(torch.eye(2)), torch.linalg.vector_norm(torch.ones(4))
torch.svd(torch.eye(2))[1]
torch.linalg.eigh(torch.diag(torch.tensor([1.0, 2.0])))[0]
torch.triu_indices(3, 3, 1)
torch.tril_indices(2, 2)
torch.cummax(torch.tensor([1, 3, 2]), 0)[0]
torch.unique_consecutive(torch.tensor([1, 1, 2]))
torch.histogram(torch.tensor([1.0, 2.0]), bins=2)[0]
torch.nansum(torch.tensor([1.0, float("nan")])), torch.nanmean(torch.tensor([1.0, float("nan")]))
torch.logaddexp(torch.tensor(0.0), torch.tensor(0.0))
torch.fmax(torch.tensor(1.0), torch.tensor(float("nan")))
torch.bitwise_xor(torch.tensor(5), torch.tensor(3)), torch.tensor(1) << 3
torch.float_power(torch.tensor(2), 3)
torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]))
torch.cov(torch.tensor([[1.0, 2.0, 3.0]]))
torch.deg2rad(torch.tensor(180.0)), torch.rad2deg(torch.tensor(0.0))
torch.heaviside(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor(0.5))
torch.signbit(torch.tensor([-1.0, 1.0]))
torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)) > 1
torch.ldexp(torch.tensor(1.0), torch.tensor(3))
torch.clone(torch.ones(1)), torch.detach(torch.ones(1))
torch.Tensor.add(torch.ones(1), 1), torch.Tensor.relu(torch.tensor([-1.0]))
[f.__name__ for f in (torch.add, torch.relu, F.relu)]
nn.functional.relu_(torch.tensor([-1.0])), torch.relu_(torch.tensor([-1.0]))
nn.ReLU(inplace=True)(torch.tensor([-1.0]))
nn.init.normal_(torch.empty(2), mean=0.0, std=0.0)
nn.init.uniform_(torch.empty(2), 1.0, 1.0)
nn.init.trunc_normal_(torch.empty(100), std=0.1).abs().max() <= 2
nn.init.kaiming_uniform_(torch.empty(3, 2), a=math.sqrt(5), mode="fan_in", nonlinearity="leaky_relu").shape
nn.init.xavier_normal(torch.zeros(2, 2)).shape
nn.init._calculate_fan_in_and_fan_out(torch.zeros(3, 2))
nn.Linear(2, 2).weight.requires_grad, nn.Linear(2, 2).weight.is_leaf
nn.LSTM(2, 3, 2, dropout=0.1)
nn.LSTM(2, 3).all_weights[0][0].shape
nn.LSTM(2, 3).flatten_parameters()
nn.RNN(2, 3, nonlinearity="relu")(torch.ones(1, 2))[0].shape
nn.Transformer(8, 2, 1, 1, 16)(torch.ones(2, 1, 8), torch.ones(3, 1, 8)).shape
nn.TransformerDecoderLayer(8, 2)(torch.ones(2, 1, 8), torch.ones(3, 1, 8)).shape
nn.GRUCell(2, 3)(torch.ones(1, 2), torch.zeros(1, 3)).shape
nn.Bilinear(2, 3, 4)(torch.ones(1, 2), torch.ones(1, 3)).shape
nn.CosineSimilarity(dim=1)(torch.ones(1, 2), torch.ones(1, 2))
nn.Unflatten(1, (2, 2))(torch.ones(1, 4)).shape
nn.PixelShuffle(2)(torch.ones(1, 4, 1, 1)).shape
nn.ZeroPad2d(1)(torch.ones(1, 1, 1, 1)).shape, nn.ReflectionPad2d(1)(torch.ones(1, 1, 2, 2)).shape
nn.InstanceNorm2d(2)(torch.ones(1, 2, 2, 2)).sum(), nn.GroupNorm(1, 2)(torch.ones(1, 2)).sum()
nn.PReLU().weight, nn.Softplus(), nn.Hardtanh(-2, 2)
nn.MarginRankingLoss()(torch.ones(1), torch.zeros(1), torch.ones(1))
nn.KLDivLoss(reduction="batchmean")(torch.zeros(1, 1), torch.ones(1, 1))
nn.TripletMarginLoss()(torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1))
nn.CTCLoss(), nn.SmoothL1Loss(beta=0.5), nn.HuberLoss(delta=2.0)
nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 2), torch.ones(1, 2))
nn.AdaptiveMaxPool2d(1)(torch.ones(1, 1, 2, 2)).shape, nn.LPPool2d(2, 2)(torch.ones(1, 1, 2, 2))
nn.EmbeddingBag(3, 2, mode="sum")(torch.tensor([[0, 1]])).shape
nn.Sequential(nn.Linear(1, 1), nn.ReLU())[:1]
s = nn.Sequential(nn.Linear(1, 1)); s.append(nn.ReLU()); len(s)
s = nn.Sequential(nn.Linear(1, 1), nn.ReLU()); del s[0]; s
l = nn.ModuleList(); l.append(nn.ReLU()); l.extend([nn.Tanh()]); l
d = nn.ModuleDict(); d["a"] = nn.ReLU(); list(d.items())
d = nn.ParameterDict({"w": nn.Parameter(torch.zeros(1))}); list(d.keys())
m = nn.Linear(1, 1); m._parameters.keys(), m._modules, m._buffers
m = nn.Linear(1, 1); m.__class__.__name__, m._get_name()
m = nn.Linear(1, 1); m.state_dict(prefix="x.").keys()
m = nn.Linear(1, 1); m.load_state_dict({}, strict=False)
m = nn.Linear(1, 1); m.get_parameter("weight").shape
m = nn.Sequential(nn.Linear(1, 1)); m.get_submodule("0")
m = nn.Linear(1, 1); m.half().weight.dtype, m.float().weight.dtype, m.bfloat16().weight.dtype
m = nn.Linear(1, 1); m.type(torch.float64).weight.dtype
m = nn.Linear(1, 1); [id(p) for p in m.parameters()] == [id(p) for p in m.to(torch.float64).parameters()]
m = nn.Linear(1, 1); m.extra_repr()
m = nn.Linear(1, 1); m.train(False).training
m = nn.Linear(1, 1); sum(1 for _ in m.modules())
m = nn.Linear(1, 1, device="meta"); m.to_empty(device="cpu").weight.device
exec("class M(nn.Module):\\n    def __init__(self):\\n        super().__init__()\\n        self.l = nn.ModuleList(nn.Linear(1, 1) for _ in range(2))\\n    def forward(self, x):\\n        for l in self.l: x = l(x)\\n        return x"); M()
exec("class M(nn.Module):\\n    @property\\n    def device(self):\\n        return next(self.parameters()).device\\nm = M()\\nm.w = nn.Parameter(torch.ones(1))"); m.device
exec("class M(nn.Module):\\n    def __init__(self):\\n        super().__init__()\\n        self.register_buffer('mask', torch.ones(1), persistent=False)"); list(M().state_dict())
exec("class M(nn.Module):\\n    def __init__(self):\\n        self.x = nn.Linear(1, 1)\\ntry:\\n    M()\\nexcept AttributeError as e:\\n    s = str(e)"); s
exec("try:\\n    nn.Linear(2, 1)(torch.ones(1, 3))\\nexcept RuntimeError as e:\\n    s = 'shapes' in str(e)"); s
exec("try:\\n    torch.ones(2) + torch.ones(3)\\nexcept RuntimeError as e:\\n    s = type(e).__name__"); s
exec("try:\\n    torch.ones(2, requires_grad=True).numpy()\\nexcept RuntimeError as e:\\n    s = str(e)"); s
exec("try:\\n    torch.tensor([1, 2]).mean()\\nexcept RuntimeError as e:\\n    s = 'RuntimeError'"); s
exec("try:\\n    torch.ones(2).backward()\\nexcept RuntimeError as e:\\n    s = str(e)"); s
exec("try:\\n    y = (torch.ones(1, requires_grad=True) * 2).exp(); y.backward(); y.backward()\\nexcept RuntimeError as e:\\n    s = str(e)[:40]"); s
exec("try:\\n    torch.load('/nonexistent')\\nexcept FileNotFoundError as e:\\n    s = 'FileNotFoundError'"); s
exec("try:\\n    nn.Linear(1, 1).load_state_dict({'x': 1})\\nexcept RuntimeError as e:\\n    s = 'Missing key' in str(e)"); s
exec("try:\\n    F.cross_entropy(torch.zeros(1, 2), torch.tensor([5]))\\nexcept IndexError as e:\\n    s = str(e)"); s
exec("try:\\n    int(torch.ones(2))\\nexcept Exception as e:\\n    s = type(e).__name__"); s
exec("try:\\n    torch.ones(3).item()\\nexcept RuntimeError as e:\\n    s = type(e).__name__"); s
exec("try:\\n    torch.ones(2)[5]\\nexcept IndexError as e:\\n    s = str(e)"); s
exec("try:\\n    torch.device('nope')\\nexcept RuntimeError as e:\\n    s = type(e).__name__"); s
torch.autograd.functional.hessian(lambda x: (x ** 2).sum(), torch.ones(2))
torch.autograd.functional.vjp(lambda x: x * 2, torch.ones(2), torch.ones(2))[1]
torch.autograd.profiler.profile is not None
exec("with torch.autograd.set_detect_anomaly(True):\\n    y = torch.ones(1, requires_grad=True) * 2"); y.requires_grad
exec("with torch.autograd.profiler.record_function('x'):\\n    y = 1"); y
exec("with torch.profiler.profile() as p:\\n    torch.ones(1)"); p is not None
exec("class F2(torch.autograd.Function):\\n    @staticmethod\\n    def forward(ctx, x, n):\\n        ctx.n = n\\n        ctx.mark_non_differentiable()\\n        return x * n\\n    @staticmethod\\n    def backward(ctx, g):\\n        return g * ctx.n, None"); x = torch.ones(1, requires_grad=True); F2.apply(x, 3).backward(); x.grad
exec("class F3(torch.autograd.Function):\\n    @staticmethod\\n    def forward(x):\\n        return x * 2\\n    @staticmethod\\n    def setup_context(ctx, inputs, output):\\n        pass\\n    @staticmethod\\n    def backward(ctx, g):\\n        return g * 2"); x = torch.ones(1, requires_grad=True); F3.apply(x).backward(); x.grad
x = torch.ones(2, requires_grad=True); y = x.clone(); y[0] = 5; y.sum().backward(); x.grad
x = torch.ones(2, requires_grad=True); x.view(2)[0].backward(); x.grad
x = torch.randn(3, requires_grad=True); torch.autograd.grad(x.sum(), [x], retain_graph=True)[0]
x = torch.ones(1, requires_grad=True); z = torch.ones(1, requires_grad=True); torch.autograd.grad(x * 2, [x, z], allow_unused=True)
x = torch.ones(2, requires_grad=True); (x.sum() + x.detach().sum()).backward(); x.grad
o = torch.optim.Adagrad([nn.Parameter(torch.ones(1))]); o.param_groups[0]["lr"]
o = torch.optim.Adam([nn.Parameter(torch.ones(1))]); sorted(k for k in o.param_groups[0] if k in ("lr", "betas", "eps", "weight_decay", "amsgrad"))
p = nn.Parameter(torch.ones(1)); o = torch.optim.Adam([p]); p.sum().backward(); o.step(); sorted(o.state[p].keys())
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); o.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 0.5}); [g["lr"] for g in o.param_groups]
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); o.load_state_dict(o.state_dict()); len(o.state)
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.MultiStepLR(o, [1, 2], 0.1); o.step(); s.step(); o.step(); s.step(); round(o.param_groups[0]["lr"], 4)
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=10); round(o.param_groups[0]["lr"], 4)
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.ExponentialLR(o, 0.5); s.last_epoch, s.state_dict()["last_epoch"]
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.SequentialLR(o, [torch.optim.lr_scheduler.ConstantLR(o, 0.1, 1), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [1]); o.param_groups[0]["lr"]
exec("from torch.optim.lr_scheduler import _LRScheduler\\nclass W(_LRScheduler):\\n    def get_lr(self):\\n        return [b * 0.5 for b in self.base_lrs]"); o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); W(o); o.param_groups[0]["lr"]
exec("class Opt(torch.optim.Optimizer):\\n    def __init__(self, params, lr=0.1):\\n        super().__init__(params, dict(lr=lr))\\n    @torch.no_grad()\\n    def step(self, closure=None):\\n        for g in self.param_groups:\\n            for p in g['params']:\\n                if p.grad is not None:\\n                    p.add_(p.grad, alpha=-g['lr'])"); p = nn.Parameter(torch.ones(1)); o = Opt([p]); p.sum().backward(); o.step(); p.data
from torch.utils.data import IterableDataset, DataLoader; exec("class It(IterableDataset):\\n    def __iter__(self):\\n        return iter(range(4))"); list(DataLoader(It(), batch_size=2))
from torch.utils.data import DataLoader; len(DataLoader(range(10), batch_size=3)), DataLoader(range(4), 2).batch_size, len(DataLoader(range(4), 2).dataset)
from torch.utils.data import DataLoader; sorted(int(x) for b in DataLoader(range(6), batch_size=2, shuffle=True, num_workers=1) for x in b)
from torch.utils.data import DataLoader; [type(b).__name__ for b in DataLoader([(np.ones(1), 1.5)], batch_size=1)]
from torch.utils.data import DataLoader; [x.dtype for x in next(iter(DataLoader([(np.float64(1), np.int64(2), 1.5, True)], 1)))]
from torch.utils.data import Dataset, random_split; [len(x) for x in random_split(range(10), [0.5, 0.5], generator=torch.Generator().manual_seed(1))]
from torch.utils.data.dataloader import default_collate; default_collate([{"x": torch.ones(1)}, {"x": torch.zeros(1)}])
from torch.utils.data._utils.collate import default_collate; default_collate([(1, "a"), (2, "b")])
torch.utils.data.dataset.Dataset is torch.utils.data.Dataset, torch.utils.data.dataloader.DataLoader is torch.utils.data.DataLoader
f = io.BytesIO(); torch.save(OrderedDict(a=1), f); f.seek(0); type(torch.load(f)).__name__
f = io.BytesIO(); torch.save({"o": torch.optim.Adam([nn.Parameter(torch.ones(1))]).state_dict(), "e": 3, "l": [1, (2,)]}, f); f.seek(0); sorted(torch.load(f))
f = io.BytesIO(); torch.save(nn.Parameter(torch.ones(1)), f); f.seek(0); torch.load(f)
f = io.BytesIO(); torch.save(np.arange(2), f); f.seek(0); torch.load(f, weights_only=False)
torch.is_tensor(np.ones(1)), torch.is_storage(1), torch.is_nonzero(torch.tensor(1))
torch.numel(torch.ones(2)), torch.is_complex(torch.ones(1)), torch.is_same_size(torch.ones(1), torch.ones(1))
torch.cuda.current_device() if torch.cuda.is_available() else -1
torch.cuda.empty_cache(), torch.cuda.synchronize() if torch.cuda.is_available() else None
torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
torch.cuda.memory_allocated() >= 0
torch.__version__.startswith("2"), torch.version.cuda is None or isinstance(torch.version.cuda, str)
torch.nn.__name__.endswith("nn"), torch.__name__
torch.Tensor.__name__, torch.nn.Module.__name__, torch.dtype.__name__
isinstance(torch.float32, torch.dtype), isinstance(torch.device("cpu"), torch.device), isinstance(torch.ones(1).shape, tuple)
isinstance(torch.ones(1), torch.Tensor), isinstance(nn.Parameter(torch.ones(1)), torch.Tensor), type(nn.Parameter(torch.ones(1)).data).__name__
torch.float is torch.float32, torch.double is torch.float64, torch.long is torch.int64, torch.half is torch.float16
torch.float32.itemsize, torch.float32.is_floating_point, torch.int8.is_signed
{torch.float32: 1}[torch.float], torch.float32 == torch.float, torch.float32 in [torch.float]
hash(torch.device("cpu")) == hash(torch.device("cpu")), torch.device("cuda", 1), torch.device("cuda:0").index, torch.device("cuda").type
torch.inf, torch.pi, torch.e, torch.nan
torch.ones(1).grad_fn, torch.ones(1).grad, torch.ones(1)._version
torch.ones(2, 2).numpy().dtype, torch.ones(1, dtype=torch.int64).numpy().dtype, torch.tensor(1.5).numpy()
torch.ones(2).numpy().sum(), np.asarray(torch.ones(2)).shape, np.array(torch.arange(2)), np.mean(torch.ones(2).numpy())
torch.from_numpy(np.ones((2, 2))[:, 0]).stride()
torch.ones(2).__array__().dtype, torch.arange(3).__len__(), list(torch.arange(2)), tuple(torch.arange(2))
a, b = torch.tensor([1, 2]); a + b
x, *rest = torch.arange(3); rest
for_sum = 0; for_sum = sum(v.item() for v in torch.arange(3)); for_sum
dict(zip(["a"], torch.ones(1)))
torch.tensor([1, 2]).tolist() == [1, 2], 1 in torch.tensor([1, 2]), torch.tensor(1) in [torch.tensor(1)]
torch.arange(3).sum() == 3, torch.tensor(3) > 2, not torch.tensor(0)
range(torch.tensor(3))[1], [10, 20, 30][torch.tensor(1)], "abc"[torch.tensor(2)]
math.sqrt(torch.tensor(4.0)), math.floor(torch.tensor(1.5)), round(float(torch.tensor(1.25)), 1)
x = torch.tensor([1.0]); x **= 2; x /= 2; x //= 1; x
x = torch.tensor([5]); x %= 3; x &= 3; x
torch.tensor([True]) + 1, torch.tensor([True]) & True, torch.tensor([1]) * True
torch.ones(2, dtype=torch.float16) + torch.ones(2, dtype=torch.float32)
torch.tensor([1, 2], dtype=torch.uint8) - 3
torch.arange(0, 1, 0.1).shape, torch.arange(10)[::3], torch.linspace(-1, 1, steps=3)
torch.zeros(2).bool().dtype, torch.ones(1).char().dtype, torch.ones(1).short().dtype, torch.ones(1).byte().dtype
torch.bfloat16, torch.ones(1).bfloat16(), torch.ones(1).to(torch.float8_e4m3fn).dtype
x = torch.ones(2, 3); x.unsqueeze_(0); x.squeeze_(); x.t_(); x.shape
x = torch.arange(4); x.view_as(torch.ones(2, 2)), x.reshape_as(torch.ones(2, 2)).shape, torch.ones(1).expand_as(torch.ones(3))
torch.ones(2, 3, 4).mT.shape, torch.ones(2, 3).H.shape, torch.adjoint(torch.ones(2, 3)).shape
torch.ones(2, 3).permute(*torch.arange(1, -1, -1).tolist()).shape
torch.ones(6).view(2, 3).transpose(-1, -2).size()
torch.ones(1, 2, 3).view(-1).size(0), torch.ones(2, 3).view(size=(3, 2)).shape
torch.Size([2, 3]).numel(), torch.Size((1,)) == (1,), torch.Size([1, 2])[0]
torch.ones(4, 4)[1:3, 1:3].contiguous().view(-1)
torch.dstack([torch.ones(1), torch.ones(1)]).shape, torch.column_stack([torch.ones(2), torch.ones(2)])
torch.ones(2, 2).fill_diagonal_(5), torch.ones(2, 2).triu_(), torch.diagflat(torch.tensor([1, 2]))
torch.gradient(torch.tensor([1.0, 2.0, 4.0]))
torch.nn.functional.cosine_embedding_loss(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1))
torch.dropout(torch.ones(2), 0.0, True), torch.batch_norm(torch.ones(2, 1), None, None, None, None, True, 0.1, 1e-5, False)
torch.embedding(torch.eye(2), torch.tensor([1])), torch.layer_norm(torch.ones(2), [2]), torch.conv2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
torch.nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([torch.ones(2, 1), torch.ones(1, 1)]))[1]
nn.utils.vector_to_parameters(torch.zeros(2), nn.Linear(1, 1).parameters())
torch.nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1).eval()).bias.shape
torch.testing.assert_close(1.0, 1.0 + 1e-9)
torch.random.manual_seed(1).initial_seed(), torch.initial_seed()
exec("with torch.random.fork_rng():\\n    torch.manual_seed(0)"); True
torch.distributed.is_available() in (True, False)
torch.utils.data.get_worker_info() is None
import torch.nn.utils.prune as prune; hasattr(prune, "l1_unstructured")
from torch import Tensor, nn, optim; Tensor is torch.Tensor
from torch.nn import Module, Linear, functional; Linear(1, 1)
from torch.types import Number, Device; True
from torch import autocast; True
from torch.cuda.amp import autocast, GradScaler; True
from torch.amp import GradScaler; GradScaler("cpu", enabled=False).get_scale()
from typing import Optional; exec("def f(x: Optional[torch.Tensor] = None, d: torch.device = None, t: torch.dtype = torch.float32) -> torch.Tensor:\\n    return x"); f() is None
"""
