"""Everyday idioms of PyTorch programs, one per line: statements, then an expression whose repr is compared.

idioms.json has the results of PyTorch 2.15 (record.py beside this file writes them); test_idioms.py replays them.
"""

CREATION = """
torch.tensor([1, 2, 3])
torch.tensor([[1.0, 2], [3, 4]])
torch.tensor(3.5)
torch.tensor(True)
torch.tensor([])
torch.tensor([1, 2.5, True])
torch.tensor(np.arange(3))
torch.tensor(np.float64(2))
torch.tensor([np.float32(1), 2])
torch.tensor(range(4))
torch.tensor((1, 2)).dtype
torch.tensor([torch.tensor([1.0]), torch.tensor([2.0])])
torch.tensor([[1, 2]], dtype=torch.float64)
torch.as_tensor(np.ones(2, dtype=np.float32))
torch.from_numpy(np.arange(4).reshape(2, 2))
torch.zeros(2, 3)
torch.zeros((2, 3), dtype=torch.int64)
torch.ones([2])
torch.ones(2, 3).shape
torch.zeros(0, 3)
torch.empty(0)
torch.full((2, 2), 7)
torch.full((2,), 1.5)
torch.full((2,), True)
torch.eye(3)
torch.eye(2, 3)
torch.arange(5)
torch.arange(1, 2, 0.25)
torch.arange(5, 0, -2)
torch.linspace(0, 1, 5)
torch.logspace(0, 2, 3)
torch.range(1, 3)
torch.zeros_like(torch.ones(2, dtype=torch.int32))
torch.ones_like(torch.tensor([1, 2]), dtype=torch.float)
torch.full_like(torch.zeros(2), 3)
torch.tril(torch.ones(3, 3))
torch.triu(torch.ones(3, 3), diagonal=1)
torch.diag(torch.tensor([1, 2]))
torch.block_diag(torch.ones(1, 2), torch.ones(1, 1))
torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
torch.combinations(torch.tensor([1, 2, 3]))
torch.vander(torch.tensor([1, 2, 3]))
torch.scalar_tensor(2)
torch.Tensor([1, 2])
torch.Tensor(2, 3).shape
torch.Tensor().shape
torch.FloatTensor([1, 2])
torch.LongTensor([[1, 2], [3, 4]])
torch.LongTensor(range(3))
torch.ByteTensor([0, 1]).dtype
torch.BoolTensor([True, False])
torch.DoubleTensor([1]).type()
torch.HalfTensor([1, 2]).dtype
torch.FloatTensor(2, 3).zero_()
x = torch.ones(2); x.new_zeros(3)
x = torch.ones(2, dtype=torch.float64); x.new_tensor([1, 2])
x = torch.ones(2, dtype=torch.int64); x.new_ones(2, 2)
x = torch.ones(2); x.new_full((2,), 3.0)
x = torch.ones(2); x.new([1, 2, 3])
x = torch.ones(2); x.new(2, 3).shape
torch.zeros(3).fill_(2)
torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
torch.get_default_dtype()
torch.set_default_dtype(torch.float64); y = torch.ones(1).dtype; torch.set_default_dtype(torch.float32); y
torch.set_default_tensor_type(torch.DoubleTensor); y = torch.ones(1).dtype; torch.set_default_tensor_type("torch.FloatTensor"); y
torch.manual_seed(0).initial_seed()
g = torch.Generator(); g.manual_seed(3); g.initial_seed()
torch.randn(2, 3).shape
torch.rand(3, generator=torch.Generator().manual_seed(1)).shape
torch.randint(5, (3,)).dtype
torch.randperm(4).sort()[0]
torch.bernoulli(torch.tensor([0.0, 1.0]))
torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
torch.normal(torch.zeros(3), torch.zeros(3))
torch.manual_seed(5); a = torch.rand(2); torch.manual_seed(5); torch.equal(a, torch.rand(2))
s = torch.get_rng_state(); a = torch.rand(2); torch.set_rng_state(s); torch.equal(a, torch.rand(2))
"""

PRINTING = """
torch.arange(12).reshape(3, 4)
torch.tensor([1e-8, 1.0])
torch.tensor([1e10, 1.0])
torch.tensor([0.1, 100.25])
torch.tensor([float("nan"), float("inf"), -1])
torch.zeros(2, dtype=torch.float16)
torch.ones(1, dtype=torch.int32)
torch.arange(2000)
torch.zeros(2, 2, 2)
torch.tensor([[True], [False]])
torch.ones(2, requires_grad=True)
torch.ones(2, requires_grad=True) * 2
torch.ones(2, requires_grad=True).sum()
torch.nn.Parameter(torch.zeros(2))
str(torch.float32)
repr(torch.Size([1, 2]))
repr(torch.device("cpu"))
str(torch.device("cuda:1"))
torch.strided
f"{torch.tensor(3)}"
f"{torch.tensor(2.5):.2f}"
f"{torch.tensor([1, 2])}"
"%.3f" % torch.tensor(1.5)
"{:4d}".format(torch.tensor(7))
print(torch.tensor([1.5]), torch.Size([2]))
torch.set_printoptions(precision=2); r = repr(torch.tensor([1.23456])); torch.set_printoptions(profile="default"); r
torch.set_printoptions(sci_mode=False); r = repr(torch.tensor([1e-6])); torch.set_printoptions(profile="default", sci_mode=None); r
type(torch.ones(1))
torch.typename(torch.ones(1))
torch.ones(1).type()
torch.finfo(torch.float32).max
torch.finfo(torch.float16).eps
torch.iinfo(torch.int8).min
torch.max(torch.tensor([[1, 5], [7, 2]]), dim=1)
torch.sort(torch.tensor([3, 1, 2]))
torch.topk(torch.tensor([1.0, 4, 2]), 2)
"""

SHAPES = """
x = torch.ones(2, 3, 4); x.shape[1:].numel()
x = torch.ones(2, 3, 4); x.size(), x.size(0), x.size(-1)
x = torch.ones(2, 3); x.shape + (4,)
x = torch.ones(2, 3); list(x.shape)
x = torch.ones(2, 3); a, b = x.shape; a * b
x = torch.ones(2, 3); x.numel(), x.nelement(), x.dim(), x.ndim, x.ndimension()
x = torch.arange(6); x.view(2, 3)
x = torch.arange(6); x.view(-1, 2).shape
x = torch.arange(6); x.reshape(3, -1)
x = torch.arange(6).view(2, 3); x.t()
x = torch.arange(6).view(2, 3); x.T.shape
x = torch.arange(6).view(2, 3); x.flatten()
x = torch.ones(2, 3, 4); x.flatten(1).shape
x = torch.ones(2, 3, 4); x.permute(2, 0, 1).shape
x = torch.ones(2, 3, 4); x.transpose(1, 2).shape
x = torch.ones(2, 3, 4); x.movedim(0, -1).shape
x = torch.ones(1, 2, 1); x.squeeze().shape, x.squeeze(0).shape, x.squeeze(1).shape
x = torch.ones(2); x.unsqueeze(0).shape, x[None].shape, x[:, None].shape
x = torch.ones(2, 1); x.expand(2, 3)
x = torch.ones(2, 1); x.expand(-1, 4).shape
x = torch.tensor([1, 2]); x.repeat(2, 2)
x = torch.tensor([1, 2]); x.repeat_interleave(2)
torch.tile(torch.tensor([1, 2]), (2,))
torch.cat([torch.ones(1, 2), torch.zeros(1, 2)])
torch.cat((torch.ones(2), torch.zeros(1)), dim=0)
torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
torch.hstack([torch.tensor([1]), torch.tensor([2])])
torch.vstack([torch.tensor([1]), torch.tensor([2])])
torch.chunk(torch.arange(5), 2)
torch.split(torch.arange(5), 2)
torch.arange(6).split([1, 5])
torch.unbind(torch.tensor([[1, 2], [3, 4]]))
x = torch.arange(8).view(2, 2, 2); x.unbind(1)[0]
torch.ones(2, 3).is_contiguous(), torch.ones(2, 3).t().is_contiguous()
torch.ones(2, 3).t().contiguous().stride()
x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last); x.stride(), x.is_contiguous(memory_format=torch.channels_last)
torch.arange(4).roll(1)
torch.flip(torch.arange(3), [0])
torch.rot90(torch.arange(4).view(2, 2))
torch.arange(9).view(3, 3).diagonal()
torch.arange(10).unfold(0, 3, 2)
torch.broadcast_tensors(torch.ones(2, 1), torch.zeros(3))[0].shape
torch.broadcast_shapes((2, 1), (3,))
torch.atleast_2d(torch.tensor(1.0)).shape
torch.arange(24).view(2, 3, 4).swapaxes(0, 2).shape
torch.ravel(torch.ones(2, 2))
torch.ones(2, 3).unflatten(1, (3, 1)).shape
torch.narrow(torch.arange(6), 0, 2, 3)
torch.as_strided(torch.arange(6), (2, 2), (3, 1))
torch.arange(6).view(2, 3).numpy()
torch.arange(3).tolist()
torch.tensor(5).item()
torch.ones(2, 3).view(torch.int32)[0, 0].item()
torch.ones(3).element_size(), torch.ones(3).nbytes
x = torch.arange(6).view(2, 3); x[1].storage_offset(), x.stride(0)
torch.trace(torch.arange(9).view(3, 3))
x = torch.zeros(2, 3); x.resize_(3, 2).shape
x = torch.arange(3); y = x.view(3); y[0] = 9; x
x = torch.arange(3); y = x.clone(); y[0] = 9; x
x = torch.arange(3.0); y = x.numpy(); y[0] = 5; x
a = np.zeros(2); x = torch.from_numpy(a); x[0] = 1; a
len(torch.ones(4, 2))
[r.tolist() for r in torch.ones(2, 2)]
torch.ones(2).untyped_storage().nbytes()
x = torch.ones(4); x[2:].storage().data_ptr() == x.storage().data_ptr()
len(torch.ones(4).storage()), torch.ones(2).storage()[0]
"""

INDEXING = """
x = torch.arange(12).view(3, 4); x[1]
x = torch.arange(12).view(3, 4); x[1, 2]
x = torch.arange(12).view(3, 4); x[:, 1]
x = torch.arange(12).view(3, 4); x[..., -1]
x = torch.arange(12).view(3, 4); x[1:, ::2]
x = torch.arange(12).view(3, 4); x[[0, 2]]
x = torch.arange(12).view(3, 4); x[[0, 2], [1, 3]]
x = torch.arange(12).view(3, 4); x[range(2)]
x = torch.arange(12).view(3, 4); x[torch.tensor([2, 0])]
x = torch.arange(12).view(3, 4); x[x > 8]
x = torch.arange(12).view(3, 4); x[np.array([0, 1])]
x = torch.arange(12).view(3, 4); x[torch.tensor([True, False, True])]
x = torch.arange(4); x[None, :].shape
x = torch.arange(4); x[-1].item()
x = torch.zeros(3); x[1] = 5; x
x = torch.zeros(3); x[x == 0] = 1; x
x = torch.zeros(2, 2); x[0] = torch.tensor([1.0, 2.0]); x
x = torch.zeros(2, 2); x[:, 0] += 3; x
x = torch.zeros(4); x[[1, 3]] = torch.tensor([1.0, 2.0]); x
x = torch.zeros(3); x[torch.tensor([0, 0])] += 1; x
torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]]))
torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [2]]), 1.0)
torch.zeros(3).scatter_add_(0, torch.tensor([0, 0, 2]), torch.ones(3))
torch.zeros(3).index_add_(0, torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
torch.index_select(torch.arange(6).view(2, 3), 1, torch.tensor([0, 2]))
torch.masked_select(torch.arange(4), torch.tensor([True, False, True, False]))
torch.zeros(3).masked_fill(torch.tensor([True, False, True]), 2)
x = torch.zeros(2, 2); x.masked_fill_(torch.eye(2).bool(), float("-inf")); x
torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([3, 4]))
torch.where(torch.tensor([1.0, -1.0]) > 0, 1.0, 0.0)
torch.nonzero(torch.tensor([0, 3, 0, 4]))
torch.nonzero(torch.tensor([0, 3]), as_tuple=True)
torch.tensor([[0, 1], [1, 0]]).nonzero().tolist()
torch.take(torch.arange(6).view(2, 3), torch.tensor([0, 5]))
torch.take_along_dim(torch.tensor([[3, 1]]), torch.tensor([[1, 0]]), 1)
torch.argwhere(torch.tensor([0, 1]))
torch.bucketize(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 2.0, 4.0]))
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
torch.arange(4).index_fill_(0, torch.tensor([1]), 9)
torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2]))
2 in torch.tensor([1, 2])
torch.tensor([1, 2, 2]).unique()
torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
torch.ones(3, 3).select(0, 1).shape
F.one_hot(torch.tensor([0, 2]), 3)
torch.eye(3)[torch.tensor([1, 2])]
x = torch.arange(6).view(2, 3); x[0, 1:].tolist()
x = torch.arange(3); x[torch.tensor(1)]
x = torch.arange(3); del x; "x" in dir()
torch.arange(3)[5] if False else "skip"
"""

MATH = """
torch.tensor([1, 2]) + 1
torch.tensor([1, 2]) / 2
torch.tensor([7, -7]) // 2
torch.tensor([7, -7]) % 3
torch.tensor([2, 3]) ** 2
2 ** torch.tensor([1, 2])
1 / torch.tensor([2.0, 4.0])
1 - torch.tensor([1.0])
-torch.tensor([1, -2])
torch.tensor([1, 2]) == torch.tensor([1, 3])
torch.tensor([1.0, 2.0]) * np.array([2.0, 3.0], dtype=np.float32)
torch.tensor([1, 2]) @ torch.tensor([3, 4])
torch.ones(2, 3) @ torch.ones(3, 2)
torch.matmul(torch.ones(2, 2, 3), torch.ones(3, 1)).shape
torch.mm(torch.eye(2), torch.ones(2, 2))
torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
torch.dot(torch.tensor([1.0, 2]), torch.tensor([3.0, 4]))
torch.mv(torch.eye(2), torch.tensor([1.0, 2.0]))
torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2))
torch.einsum("bi,bi->b", torch.ones(2, 3), torch.ones(2, 3))
torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
torch.addmm(torch.ones(2, 2), torch.eye(2), torch.eye(2))
torch.sum(torch.arange(6).view(2, 3), dim=0)
torch.arange(6.0).view(2, 3).sum(1, keepdim=True)
torch.arange(6.0).view(2, 3).sum(axis=1)
torch.arange(6.0).mean()
torch.tensor([1.0, 2, 3]).std(), torch.tensor([1.0, 2, 3]).var(unbiased=False)
torch.tensor([1.0, 2, 3]).prod()
torch.tensor([3, 1, 2]).max(), torch.tensor([3, 1, 2]).argmax()
values, indices = torch.tensor([[1, 9], [8, 2]]).max(1); values, indices
torch.max(torch.tensor([1, 5]), torch.tensor([3, 2]))
torch.tensor([[1, 2], [3, 4]]).amax(dim=0)
torch.tensor([1, 2, 3, 4]).median()
torch.mode(torch.tensor([1, 1, 2]))
torch.cumsum(torch.arange(4), 0)
torch.cumprod(torch.tensor([1, 2, 3]), 0)
torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), 0, 1)
torch.tensor([-1.0, 2.0]).clamp(min=0)
torch.abs(torch.tensor([-1, 2]))
torch.exp(torch.tensor([0.0, 1.0]))
torch.log(torch.tensor([1.0, 2.718281828]))
torch.sqrt(torch.tensor([4.0, 9.0]))
torch.sigmoid(torch.tensor(0.0)), torch.tanh(torch.tensor(0.0))
torch.sin(torch.tensor(math.pi / 2))
torch.round(torch.tensor([0.5, 1.5, 2.6])), torch.floor(torch.tensor(1.7)), torch.ceil(torch.tensor(1.2))
torch.sign(torch.tensor([-2.0, 0.0, 3.0]))
torch.isnan(torch.tensor([1.0, float("nan")])), torch.isinf(torch.tensor([float("inf")])), torch.isfinite(torch.tensor([1.0]))
torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
torch.eq(torch.tensor([1, 2]), 1).sum().item()
torch.all(torch.tensor([True, False])), torch.any(torch.tensor([True, False]))
torch.logical_and(torch.tensor([1, 0]), torch.tensor([1, 1]))
~torch.tensor([True, False])
torch.tensor([1, 2]) & torch.tensor([3, 1])
torch.lerp(torch.tensor(0.0), torch.tensor(10.0), 0.3)
torch.norm(torch.tensor([3.0, 4.0]))
torch.tensor([[3.0, 4.0]]).norm(p=1, dim=1)
torch.linalg.norm(torch.tensor([3.0, 4.0]))
torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
torch.tensor([[2.0, 0.0], [0.0, 4.0]]).inverse()
torch.linalg.det(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
torch.tensor([[1.0, 2.0], [3.0, 4.0]]).det()
torch.linalg.solve(torch.eye(2) * 2, torch.ones(2))
torch.linalg.eigvalsh(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
torch.linalg.svdvals(torch.diag(torch.tensor([3.0, 2.0])))
torch.cdist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
torch.cross(torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0]), dim=0)
torch.histc(torch.tensor([1.0, 2, 1]), bins=4, min=0, max=3)
torch.bincount(torch.tensor([0, 1, 1]))
torch.logsumexp(torch.tensor([0.0, 0.0]), 0)
torch.softmax(torch.tensor([0.0, 0.0]), dim=0)
torch.quantile(torch.tensor([1.0, 2, 3, 4]), 0.5)
torch.diff(torch.tensor([1, 4, 9]))
torch.gcd(torch.tensor(12), torch.tensor(18))
torch.remainder(torch.tensor(-3.0), 2), torch.fmod(torch.tensor(-3.0), 2)
torch.atan2(torch.tensor(1.0), torch.tensor(1.0))
torch.erf(torch.tensor(0.5)), torch.lgamma(torch.tensor(4.0))
torch.nan_to_num(torch.tensor([float("nan"), float("inf")]))[0]
torch.argsort(torch.tensor([3, 1, 2]), descending=True)
torch.tensor([3, 1, 2]).sort(descending=True).values
torch.kthvalue(torch.tensor([3, 1, 2]), 2).values
torch.count_nonzero(torch.tensor([0, 1, 2]))
x = torch.ones(2); x.add_(1).mul_(3); x
x = torch.ones(2); x += 1; x
x = torch.ones(2); x.sub_(torch.ones(2), alpha=2); x
torch.add(torch.ones(1), 2, alpha=3) if False else torch.add(torch.ones(1), torch.ones(1), alpha=3)
torch.addcmul(torch.zeros(1), torch.ones(1), torch.ones(1), value=2)
torch.true_divide(torch.tensor(3), 2), torch.div(torch.tensor(7), 2, rounding_mode="floor")
np.sqrt(torch.tensor([4.0]))
torch.tensor([1.5]).int(), torch.tensor([1]).float(), torch.tensor([0, 2]).bool(), torch.tensor([1.0]).long()
torch.tensor([1.7]).to(torch.int64), torch.tensor([1]).type(torch.float64)
torch.tensor([1.5]).type(torch.LongTensor)
torch.tensor([1]).type("torch.FloatTensor")
torch.tensor([1]).double().dtype, torch.tensor([1.0]).half().dtype
torch.result_type(torch.tensor([1]), 1.5), torch.promote_types(torch.int32, torch.float32)
torch.can_cast(torch.float32, torch.int32)
torch.is_tensor(torch.ones(1)), torch.is_floating_point(torch.ones(1)), torch.numel(torch.ones(2, 2))
float(torch.tensor(2.5)), int(torch.tensor(3)), bool(torch.tensor(0))
sum(torch.tensor([1, 2, 3]))
max(torch.tensor([1, 5, 2]))
sorted([torch.tensor(2), torch.tensor(1)])
abs(torch.tensor(-1.5)), round(torch.tensor(1.0).item())
torch.tensor([1.0, 2.0]).pow(2).sum().sqrt()
torch.clip(torch.tensor([5]), max=3)
torch.sum(torch.ones(2, 2)).item()
torch.prod(torch.tensor([[1, 2], [3, 4]]), 1)
torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
torch.hypot(torch.tensor(3.0), torch.tensor(4.0))
torch.square(torch.tensor([2.0])), torch.rsqrt(torch.tensor([4.0]))
torch.var_mean(torch.tensor([1.0, 2, 3]))
torch.kron(torch.eye(2), torch.ones(1, 2))
torch.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
torch.corrcoef(torch.tensor([[1.0, 2, 3], [3.0, 2, 1]]))
torch.renorm(torch.ones(1, 4), 2, 0, 1)
"""

AUTOGRAD = """
x = torch.tensor(3.0, requires_grad=True); (x ** 2).backward(); x.grad
x = torch.ones(2, 2, requires_grad=True); y = (x * x).sum(); y.backward(); x.grad
x = torch.ones(2, requires_grad=True); torch.autograd.grad((x * 3).sum(), x)
x = torch.tensor(2.0, requires_grad=True); g, = torch.autograd.grad(x ** 3, x, create_graph=True); torch.autograd.grad(g, x)
x = torch.ones(2, requires_grad=True); y = x * 2; y.backward(torch.tensor([1.0, 0.5])); x.grad
x = torch.ones(1, requires_grad=True); y = x.detach(); y.requires_grad, x.is_leaf
x = torch.ones(1, requires_grad=True); (x * 2).requires_grad, (x * 2).grad_fn.name()
x = torch.ones(1, requires_grad=True); z = (x * 2).grad_fn; type(z).__name__ != "NoneType"
with_grad = torch.is_grad_enabled(); torch.set_grad_enabled(False); off = torch.is_grad_enabled(); torch.set_grad_enabled(True); with_grad, off
exec("with torch.no_grad():\\n    y = torch.ones(1, requires_grad=True) * 2"); y.requires_grad
exec("@torch.no_grad()\\ndef f(x):\\n    return x * 2"); f(torch.ones(1, requires_grad=True)).requires_grad
exec("with torch.enable_grad():\\n    y = torch.ones(1, requires_grad=True) * 2"); y.requires_grad
exec("with torch.inference_mode():\\n    y = torch.ones(1) * 2"); y.is_inference()
x = torch.ones(1, requires_grad=True); x.register_hook(lambda g: g * 10); (x * 2).backward(); x.grad
x = torch.ones(1, requires_grad=True); y = x * 2; y.retain_grad(); y.backward(); y.grad
x = torch.ones(1, requires_grad=True); (x * 2).backward(); x.grad.zero_(); x.grad
x = torch.ones(1, requires_grad=True); x.data.mul_(5); x
x = torch.ones(2); x.requires_grad_(); x.requires_grad
from torch.autograd import Variable; Variable(torch.ones(1), requires_grad=True)
from torch.autograd import Variable; isinstance(torch.ones(1), Variable)
from torch.autograd import Variable; v = Variable(torch.ones(2)); v.data.sum()
x = torch.ones(2, requires_grad=True); torch.autograd.grad(x.sum(), x, only_inputs=True)
exec("class Sq(torch.autograd.Function):\\n    @staticmethod\\n    def forward(ctx, x):\\n        ctx.save_for_backward(x)\\n        return x * x\\n    @staticmethod\\n    def backward(ctx, g):\\n        x, = ctx.saved_tensors\\n        return 2 * x * g"); x = torch.tensor(3.0, requires_grad=True); Sq.apply(x).backward(); x.grad
torch.autograd.functional.jacobian(lambda v: v * 2, torch.ones(2))
torch.autograd.gradcheck(lambda v: v * v, torch.ones(2, dtype=torch.float64, requires_grad=True))
x = torch.ones(1, requires_grad=True); y = x * 2; z = y.sum(); z.backward(retain_graph=True); z.backward(); x.grad
x = torch.ones(2, requires_grad=True); torch.nn.utils.clip_grad_norm_([x], 1.0) if x.grad is not None else "none"
x = torch.tensor([3.0, 4.0], requires_grad=True); (x * x).sum().backward(); n = torch.nn.utils.clip_grad_norm_([x], 1.0); n, x.grad
torch.func.functional_call(nn.Linear(1, 1), {"weight": torch.ones(1, 1), "bias": torch.zeros(1)}, (torch.ones(1, 1) * 3,)).item()
torch.vmap(lambda a: a.sum())(torch.ones(2, 3))
x = torch.ones(1, requires_grad=True); x.grad is None
x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_(); (x * x).sum().backward(); x.grad.stride()
torch.utils.checkpoint.checkpoint(lambda a: a * 2, torch.ones(1, requires_grad=True), use_reentrant=False).sum().item()
"""

MODULES = """
nn.Linear(2, 3)
nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout(0.5))
nn.Sequential(OrderedDict([("fc", nn.Linear(1, 1)), ("act", nn.Tanh())]))
nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1, bias=False)
nn.ConvTranspose2d(4, 2, 4, 2, 1)
nn.BatchNorm2d(4)
nn.LSTM(4, 8, num_layers=2, batch_first=True, bidirectional=True)
nn.GRU(4, 8)
nn.Embedding(10, 4, padding_idx=0)
nn.LayerNorm(4)
nn.MultiheadAttention(8, 2)
nn.TransformerEncoderLayer(8, 2, 16)
nn.MaxPool2d(2), nn.AvgPool2d(3, 2), nn.AdaptiveAvgPool2d((1, 1))
nn.Flatten(), nn.Identity(), nn.Softmax(dim=1), nn.LeakyReLU(0.2, inplace=True)
nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCEWithLogitsLoss()
nn.ModuleList([nn.Linear(1, 1)])
nn.ModuleDict({"a": nn.ReLU()})
nn.Upsample(scale_factor=2, mode="nearest")
m = nn.Linear(2, 3); m.weight.shape, m.bias.shape
m = nn.Linear(2, 3, bias=False); m.bias
m = nn.Linear(2, 1); sum(p.numel() for p in m.parameters() if p.requires_grad)
m = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1)); [n for n, _ in m.named_parameters()]
m = nn.Sequential(nn.Linear(1, 2), nn.ReLU()); list(m.state_dict().keys())
m = nn.Sequential(nn.Linear(1, 2), nn.ReLU()); type(m.state_dict()).__name__
m = nn.Sequential(nn.Linear(1, 2), nn.ReLU()); m[0].in_features, len(m), list(m.children())[1]
m = nn.Sequential(nn.Linear(1, 2)); m.add_module("act", nn.ReLU()); m
m = nn.BatchNorm1d(2); m.eval().training, m.train().training
m = nn.BatchNorm1d(2); sorted(m.state_dict())
m = nn.Linear(2, 2); nn.init.constant_(m.weight, 0.5); nn.init.zeros_(m.bias); m(torch.ones(1, 2))
m = nn.Linear(2, 2); m.weight.data.fill_(1); m.bias.data.zero_(); m(torch.ones(2))
m = nn.Linear(1, 1); m.apply(lambda l: nn.init.ones_(l.weight) if isinstance(l, nn.Linear) else None); m.weight
m = nn.Linear(1, 1); m.load_state_dict({"weight": torch.ones(1, 1), "bias": torch.zeros(1)})
m = nn.Linear(1, 1); m.requires_grad_(False); [p.requires_grad for p in m.parameters()]
m = nn.Linear(1, 1).double(); m.weight.dtype
m = nn.Linear(1, 1); m.to("cpu").weight.device
m = nn.Linear(1, 1); next(m.parameters()).is_cuda
exec("class Net(nn.Module):\\n    def __init__(self):\\n        super(Net, self).__init__()\\n        self.fc = nn.Linear(1, 1)\\n        self.register_buffer('b', torch.zeros(1))\\n    def forward(self, x):\\n        return self.fc(x) + self.b"); Net()
exec("class P(nn.Module):\\n    def __init__(self):\\n        super().__init__()\\n        self.w = nn.Parameter(torch.ones(2))\\n    def forward(self, x):\\n        return x * self.w\\n    def extra_repr(self):\\n        return 'two'"); p = P(); p, p(torch.ones(2))
exec("class H(nn.Module):\\n    def forward(self, x):\\n        return x\\nh = H()\\nseen = []\\nh.register_forward_hook(lambda m, i, o: seen.append(o.sum().item()))"); h(torch.ones(2)); seen
copy.deepcopy(nn.Linear(2, 2)).weight.shape
isinstance(nn.BatchNorm2d(1), nn.modules.batchnorm._BatchNorm)
isinstance(nn.Conv2d(1, 1, 1), nn.modules.conv._ConvNd)
from torch.nn.modules.utils import _pair; _pair(3)
from torch.nn.modules.loss import _Loss; isinstance(nn.MSELoss(), _Loss)
type(nn.Linear(1, 1))
nn.Linear
nn.DataParallel(nn.Linear(1, 1))
nn.DataParallel(nn.Linear(1, 1)).module
nn.ParameterList([nn.Parameter(torch.zeros(1))])
nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(2)))[0].num_features
nn.utils.parameters_to_vector(nn.Linear(2, 1).parameters()).shape
nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
p = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 1), [3, 1], batch_first=True); p.batch_sizes
o, (h, c) = nn.LSTM(2, 3)(torch.ones(4, 1, 2)); o.shape, h.shape, c.shape
o, h = nn.GRU(2, 3, batch_first=True)(torch.ones(1, 4, 2)); o.shape, h.shape
nn.LSTMCell(2, 3)(torch.ones(1, 2))[0].shape
nn.Embedding.from_pretrained(torch.eye(2))(torch.tensor([1]))
a, w = nn.MultiheadAttention(4, 2, batch_first=True)(torch.ones(1, 3, 4), torch.ones(1, 3, 4), torch.ones(1, 3, 4)); a.shape, w.shape
nn.Transformer.generate_square_subsequent_mask(2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)(torch.ones(1, 3, 4)).shape
nn.functional.relu(torch.tensor([-1.0, 1.0]))
m = nn.Module(); m.x = 1; m.x
nn.Module()
m = nn.Linear(1, 1); m.zero_grad(); m.weight.grad
m = nn.Sequential(nn.Linear(1, 1)); dict(m.named_modules()).keys()
m = nn.Linear(1, 1); m.foo = nn.ReLU(); [n for n, _ in m.named_children()]
hasattr(nn.Linear(1, 1), "weight"), getattr(nn.Linear(1, 1), "nothing", None)
nn.Linear(1, 1).register_parameter("extra", None)
"""

FUNCTIONAL = """
F.relu(torch.tensor([-1.0, 2.0])), F.leaky_relu(torch.tensor([-1.0]), 0.1), F.elu(torch.tensor([0.0]))
F.gelu(torch.tensor([1.0])), F.silu(torch.tensor([1.0])), F.softplus(torch.tensor([0.0]))
F.softmax(torch.tensor([1.0, 1.0]), dim=0), F.log_softmax(torch.zeros(2), dim=-1)
F.cross_entropy(torch.tensor([[2.0, 1.0]]), torch.tensor([0]))
F.cross_entropy(torch.zeros(1, 2), torch.tensor([0]), reduction="none")
F.nll_loss(F.log_softmax(torch.zeros(2, 3), 1), torch.tensor([0, 1]))
F.mse_loss(torch.zeros(2), torch.ones(2)), F.l1_loss(torch.zeros(2), torch.ones(2), reduction="sum")
F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
F.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
F.smooth_l1_loss(torch.tensor([0.0]), torch.tensor([2.0])), F.kl_div(torch.zeros(1), torch.ones(1), reduction="batchmean")
F.mse_loss(torch.zeros(2), torch.ones(2), size_average=False)
F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), padding=1)
F.conv_transpose2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 2))
F.max_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 2)
F.avg_pool2d(torch.arange(4.0).view(1, 1, 2, 2), 2)
F.adaptive_avg_pool2d(torch.ones(1, 2, 4, 4), 1).shape
F.interpolate(torch.arange(4.0).view(1, 1, 2, 2), scale_factor=2, mode="nearest")
F.interpolate(torch.arange(4.0).view(1, 1, 2, 2), size=(3, 3), mode="bilinear", align_corners=True)
F.pad(torch.ones(1, 2), (1, 1)), F.pad(torch.arange(3.0).view(1, 1, 3), (1, 1), mode="reflect")
F.dropout(torch.ones(3), training=False)
F.normalize(torch.tensor([[3.0, 4.0]]))
F.cosine_similarity(torch.ones(1, 2), torch.ones(1, 2))
F.pairwise_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
F.one_hot(torch.tensor([1]))
F.embedding(torch.tensor([0]), torch.ones(2, 3))
F.linear(torch.ones(1, 2), torch.ones(3, 2), torch.zeros(3))
F.layer_norm(torch.tensor([1.0, 2.0]), (2,))
F.batch_norm(torch.ones(2, 1), torch.zeros(1), torch.ones(1))
F.group_norm(torch.arange(4.0).view(1, 2, 2), 1).shape
F.scaled_dot_product_attention(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), is_causal=True)
F.grid_sample(torch.arange(4.0).view(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), align_corners=False)
F.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2), align_corners=False).shape
F.unfold(torch.arange(9.0).view(1, 1, 3, 3), 2).shape
F.pixel_shuffle(torch.arange(4.0).view(1, 4, 1, 1), 2)
F.triplet_margin_loss(torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(1, 2) * 3)
F.tanh(torch.tensor(0.0)), F.sigmoid(torch.tensor(0.0)), F.hardtanh(torch.tensor(3.0))
F.glu(torch.tensor([1.0, 0.0])), F.softsign(torch.tensor(1.0)), F.threshold(torch.tensor(0.5), 1, 9)
F.gumbel_softmax(torch.zeros(1, 3), hard=True).sum()
F.cross_entropy(torch.zeros(2, 3), torch.tensor([0, -100]), ignore_index=-100)
F.cross_entropy(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]]), label_smoothing=0.1)
F.huber_loss(torch.tensor([0.0]), torch.tensor([3.0])), F.poisson_nll_loss(torch.zeros(1), torch.ones(1))
F.ctc_loss(torch.zeros(3, 1, 3).log_softmax(2), torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
F.rms_norm(torch.tensor([3.0, 4.0]), (2,))
F.hardswish(torch.tensor(1.0)), F.mish(torch.tensor(1.0)), F.celu(torch.tensor(-1.0))
F.softmin(torch.zeros(2), dim=0)
nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))(torch.zeros(1, 2), torch.tensor([1]))
nn.BCELoss()(torch.tensor([0.5]), torch.tensor([0.0]))
nn.Softmax(dim=1)(torch.zeros(1, 2))
nn.NLLLoss()(torch.zeros(1, 2), torch.tensor([1]))
"""

TRAINING = """
p = nn.Parameter(torch.ones(1)); o = torch.optim.SGD([p], lr=0.1); (p * 2).backward(); o.step(); p.data
p = nn.Parameter(torch.ones(1)); o = torch.optim.Adam([p], lr=0.1); (p * 2).backward(); o.step(); p.data
p = nn.Parameter(torch.ones(1)); o = torch.optim.AdamW([p], lr=0.1, weight_decay=0.1); (p * 2).backward(); o.step(); p.data
p = nn.Parameter(torch.ones(1)); o = torch.optim.RMSprop([p], lr=0.1); (p * 2).backward(); o.step(); p.data
p = nn.Parameter(torch.ones(1)); o = torch.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True); (p * 2).backward(); o.step(); p.data
torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1).param_groups[0]["lr"]
o = torch.optim.Adam([{"params": [nn.Parameter(torch.ones(1))], "lr": 1.0}], lr=0.1); o.param_groups[0]["lr"], o.defaults["lr"]
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); s = torch.optim.lr_scheduler.StepLR(o, 1, 0.5); o.step(); s.step(); s.get_last_lr()
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)); o.step(); s.step(); o.param_groups[0]["lr"]
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.CosineAnnealingLR(o, 10); o.step(); s.step(); round(o.param_groups[0]["lr"], 5)
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0); s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0); [s.step(1.0) for _ in range(3)]; round(o.param_groups[0]["lr"], 4)
from torch.optim.lr_scheduler import _LRScheduler, LRScheduler; _LRScheduler is LRScheduler or issubclass(_LRScheduler, LRScheduler)
from torch.optim.optimizer import Optimizer; issubclass(torch.optim.SGD, Optimizer)
from torch.optim.adam import Adam; Adam is torch.optim.Adam
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); sorted(o.state_dict())
o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1); o
p = nn.Parameter(torch.ones(1)); o = torch.optim.SGD([p], lr=0.1); p.grad = torch.ones(1); o.zero_grad(); p.grad
p = nn.Parameter(torch.ones(1)); o = torch.optim.SGD([p], lr=0.1); p.grad = torch.ones(1); o.zero_grad(set_to_none=False); p.grad
p = nn.Parameter(torch.ones(1)); o = torch.optim.LBFGS([p]); o.step(lambda: ((p - 3) ** 2).backward() or ((p - 3) ** 2).sum()).item()
from torch.utils.data import TensorDataset, DataLoader; [b[0].tolist() for b in DataLoader(TensorDataset(torch.arange(4)), batch_size=2)]
from torch.utils.data import DataLoader; next(iter(DataLoader([(torch.ones(2), 1), (torch.zeros(2), 0)], batch_size=2)))
from torch.utils.data import DataLoader; list(DataLoader(range(4), batch_size=3, drop_last=True))
from torch.utils.data import DataLoader; list(DataLoader([{"a": 1}, {"a": 2}], batch_size=2))
from torch.utils.data import DataLoader; list(DataLoader(["a", "b"], batch_size=2))
from torch.utils.data import DataLoader; [b for b in DataLoader(range(3), batch_size=None)]
from torch.utils.data import DataLoader; list(DataLoader(range(3), collate_fn=lambda b: b, batch_size=2))
from torch.utils.data import Dataset; Dataset[int] is not None
exec("from torch.utils.data import Dataset\\nclass D(Dataset):\\n    def __len__(self):\\n        return 3\\n    def __getitem__(self, i):\\n        return i, float(i)"); len(D()), D()[1]
exec("from torch.utils.data import Dataset, DataLoader\\nclass D(Dataset):\\n    def __len__(self):\\n        return 3\\n    def __getitem__(self, i):\\n        return i, float(i)"); list(DataLoader(D(), 2))
from torch.utils.data import random_split; [len(s) for s in random_split(range(10), [7, 3])]
from torch.utils.data import Subset; list(Subset([5, 6, 7], [0, 2]))
from torch.utils.data import ConcatDataset; len(ConcatDataset([[1], [2, 3]]))
from torch.utils.data.sampler import SubsetRandomSampler; sorted(SubsetRandomSampler([3, 1]))
from torch.utils.data import SequentialSampler, BatchSampler; list(BatchSampler(SequentialSampler(range(5)), 2, False))
from torch.utils.data.dataloader import default_collate; default_collate([1, 2])
from torch.utils.data.distributed import DistributedSampler; list(DistributedSampler(range(4), num_replicas=2, rank=1, shuffle=False))
from torch.utils.data import WeightedRandomSampler; list(WeightedRandomSampler([0.0, 1.0], 3))
f = io.BytesIO(); torch.save({"a": torch.ones(2), "n": 1}, f); f.seek(0); torch.load(f)
f = io.BytesIO(); m = nn.Linear(1, 1); torch.save(m.state_dict(), f); f.seek(0); m.load_state_dict(torch.load(f, map_location="cpu"))
f = io.BytesIO(); w = torch.ones(2); torch.save([w, w], f); f.seek(0); a, b = torch.load(f); a[0] = 5; b
f = io.BytesIO(); torch.save(nn.Linear(2, 1), f); f.seek(0); torch.load(f, weights_only=False)
f = io.BytesIO(); torch.save(torch.arange(3), f); f.seek(0); torch.load(f)
pickle.loads(pickle.dumps(torch.ones(2)))
pickle.loads(pickle.dumps(nn.Linear(2, 1))).weight.shape
copy.deepcopy(torch.ones(2)), copy.copy(torch.ones(2))
x = torch.ones(1); x.tag = "a"; x.tag
torch.cuda.is_available(), torch.cuda.device_count()
torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cudnn.benchmark = True; torch.backends.cudnn.benchmark
torch.backends.cudnn.deterministic = True; torch.backends.cudnn.deterministic
torch.backends.mps.is_available()
torch.ones(1).cpu().device.type
torch.ones(1).to(torch.device("cpu")).to("cpu", torch.float64).dtype
torch.ones(1).to(torch.zeros(1, dtype=torch.int32)).dtype
torch.ones(1).is_cuda, torch.ones(1).get_device(), torch.ones(1).device == torch.device("cpu")
torch.get_num_threads() > 0
torch.use_deterministic_algorithms(False); torch.are_deterministic_algorithms_enabled()
torch.jit.script(nn.ReLU())(torch.tensor([-1.0]))
torch.jit.trace(nn.ReLU(), torch.ones(1))(torch.tensor([-1.0]))
torch.jit.is_scripting()
exec("@torch.jit.ignore\\ndef f(x):\\n    return x + 1"); f(torch.ones(1))
torch.distributed.is_initialized()
torch.__version__.split(".")[0]
torch.__version__ >= "1.0"
torch.cuda.manual_seed_all(0)
torch.amp.autocast("cpu", enabled=False).__class__.__name__
exec("with torch.autocast('cpu', dtype=torch.bfloat16):\\n    y = torch.ones(2, 2) @ torch.ones(2, 2)"); y.dtype
torch.cuda.amp.GradScaler(enabled=False).scale(torch.ones(1))
torch.utils.data.get_worker_info()
torch.hub.get_dir().endswith("hub")
from torch.utils._pytree import tree_map; tree_map(lambda x: x + 1, {"a": [1, 2]})
torch.overrides.has_torch_function((torch.ones(1),))
torch.compiler.is_compiling()
from torch.nn.parallel import DistributedDataParallel as DDP; DDP.__name__
torch.multiprocessing.get_start_method() is not None
x = torch.zeros(2).share_memory_(); x.is_shared()
exec("with torch.device('meta'):\\n    m = nn.Linear(2, 2)"); m.weight.device
torch.testing.assert_close(torch.ones(2), torch.ones(2))
torch.swapaxes(torch.ones(2, 3), 0, 1).shape
torch.nn.init.xavier_uniform_(torch.zeros(2, 2)).shape, torch.nn.init.kaiming_normal_(torch.zeros(2, 2)).shape
torch.nn.init.calculate_gain("relu")
nn.init.eye_(torch.zeros(2, 2))
nn.init.orthogonal_(torch.zeros(2, 2)).abs().sum() > 0
torch.manual_seed(0); m = nn.Dropout(0.5).eval(); m(torch.ones(3))
model = nn.Sequential(nn.Linear(1, 1)); opt = torch.optim.SGD(model.parameters(), 0.01); loss = nn.MSELoss()(model(torch.ones(4, 1)), torch.ones(4, 1)); opt.zero_grad(); loss.backward(); opt.step(); loss.dim()
acc = (torch.tensor([[0.1, 0.9], [0.8, 0.2]]).argmax(1) == torch.tensor([1, 1])).float().mean().item(); acc
_, predicted = torch.max(torch.tensor([[0.1, 0.9]]).data, 1); predicted
pred = torch.tensor([[0.2, 0.8]]).max(1, keepdim=True)[1]; pred.eq(torch.tensor([1]).view_as(pred)).sum().item()
from torch.optim.swa_utils import AveragedModel; AveragedModel(nn.Linear(1, 1)).n_averaged
ema = torch.tensor(1.0); ema.mul_(0.9).add_(torch.tensor(2.0), alpha=0.1); ema
mask = torch.tril(torch.ones(3, 3)).view(1, 1, 3, 3); torch.zeros(1, 1, 3, 3).masked_fill(mask == 0, float("-inf"))[0, 0, 0]
pe = torch.zeros(4, 4); pos = torch.arange(0, 4).unsqueeze(1); div = torch.exp(torch.arange(0, 4, 2) * -(math.log(10000.0) / 4)); pe[:, 0::2] = torch.sin(pos * div); pe[:, 1::2] = torch.cos(pos * div); pe[1]
logits = torch.tensor([[1.0, 2.0, 3.0]]); v, _ = torch.topk(logits, 2); logits[logits < v[:, [-1]]] = -float("inf"); F.softmax(logits, dim=-1)
mu, logvar = torch.zeros(2), torch.zeros(2); -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
h = tuple(v.detach() for v in (torch.ones(1, requires_grad=True), torch.ones(1))); [x.requires_grad for x in h]
correct = 0; correct += (torch.tensor([1, 2]) == torch.tensor([1, 3])).sum(); f"{correct}/{2} ({100.0 * correct / 2:.0f}%)"
"""

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

GROUPS = {
    name.lower(): [line for line in text.strip().splitlines() if line]
    for name, text in dict(
        creation=CREATION,
        printing=PRINTING,
        shapes=SHAPES,
        indexing=INDEXING,
        math=MATH,
        autograd=AUTOGRAD,
        modules=MODULES,
        functional=FUNCTIONAL,
        training=TRAINING,
        further=FURTHER,
    ).items()
}
