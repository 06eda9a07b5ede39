"""Everyday idioms of PyTorch programs, one per line: statements, then an expression whose repr is compared.

idioms.json has the results of PyTorch 2.15 (record.py beside this file writes them); test_idioms.py replays them.
"""

from further_idioms import FURTHER
from recent_idioms import RECENT

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
        recent=RECENT,
    ).items()
}
