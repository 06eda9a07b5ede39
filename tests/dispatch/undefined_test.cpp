// Undefined tensors, and read-only memory: every op rejects them; generated from the records.
#include "strata/strata.h"

#include <fmt/core.h>

#include <sys/mman.h>

#include <cstring>

#include "dispatch/samples.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

// The first sample of an op, with arguments that can be replaced.
struct Arguments {
  Sample sample;
  Args args;
  std::vector<std::vector<Tensor>> lists;
  explicit Arguments(const OpRecord& op)
      : sample(op, op.sample_texts[0], op.accepts.has(kFloat32) ? kFloat32 : kInt64), args(sample.args) {}
};

void run(const OpRecord& op, const Args& args) {
  if (op.returns_list) return static_cast<void>(call_list(op, args));
  std::vector<Tensor> outs(std::max<uint32_t>(op.outputs, 1));
  call_into(op, args, outs.data());
}

TEST(Undefined, EveryOpRefusesAMissingTensor) {
  int tried = 0;
  for (const OpRecord* op : all_ops()) {
    if (op->sample_texts.empty()) continue;
    for (uint32_t i = 0; i < op->params.size(); ++i) {
      if (op->params[i].type != ParamType::Tensor || op->params[i].optional || op->params[i].has_default) continue;
      Arguments a(*op);
      a.args[i] = Value(Tensor());
      EXPECT_ERROR(Type, "is an undefined tensor", run(*op, a.args)) << op->schema << " parameter " << i;
      if (op->has_inplace) {
        EXPECT_ERROR(Type, "is an undefined tensor", call_inplace(*op, a.args)) << op->schema << " parameter " << i;
      }
      if (op->has_out && op->outputs == 1) {
        Tensor out = zeros({1});
        EXPECT_ERROR(Type, "is an undefined tensor", call_out(*op, a.args, &out)) << op->schema << " parameter " << i;
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 500);
}

TEST(Undefined, EveryOpRefusesAMissingElementOfAList) {
  int tried = 0;
  for (const OpRecord* op : all_ops()) {
    if (op->sample_texts.empty()) continue;
    for (uint32_t i = 0; i < op->params.size(); ++i) {
      if (op->params[i].type != ParamType::Tensors || op->params[i].optional_items || op->params[i].has_default)
        continue;
      Arguments a(*op);
      std::vector<Tensor> list(a.args[i].tensor_list().begin(), a.args[i].tensor_list().end());
      list.emplace_back();
      a.args[i] = Value(TensorList(std::span<const Tensor>(list)));
      EXPECT_ERROR(Type, fmt::format("element {} of argument", list.size() - 1), run(*op, a.args)) << op->schema;
      ++tried;
    }
  }
  EXPECT_GT(tried, 20);
}

TEST(Undefined, MethodsAndOutputsRefuseIt) {
  const Tensor none;
  EXPECT_ERROR(Type, "undefined", none.shape());
  EXPECT_ERROR(Type, "undefined", none.strides());
  EXPECT_ERROR(Type, "undefined", none.size(0));
  EXPECT_ERROR(Type, "undefined", none.dim());
  EXPECT_ERROR(Type, "undefined", none.numel());
  EXPECT_ERROR(Type, "undefined", none.dtype());
  EXPECT_ERROR(Type, "undefined", none.device());
  EXPECT_ERROR(Type, "undefined", none.is_contiguous());
  EXPECT_ERROR(Type, "undefined", none.requires_grad());
  EXPECT_ERROR(Type, "undefined", none.bytes());
  EXPECT_ERROR(Type, "undefined", none.data<float>());
  EXPECT_ERROR(Type, "undefined", none.item<float>());
  EXPECT_ERROR(Type, "undefined", none.grad());
  EXPECT_ERROR(Type, "undefined", Tensor().set_grad(ones({1})));
  EXPECT_ERROR(Type, "undefined", Tensor().set_requires_grad(true));
  EXPECT_ERROR(Type, "undefined", none.backward());
  EXPECT_EQ(none.to_string(), "Tensor()");
  Tensor out;
  EXPECT_ERROR(Type, "out= number 0", call_out(op_exp, Args(ones({1})), &out));
  EXPECT_ERROR(Type, "no in-place form", call_inplace(find_op("transpose"), Args(ones({2, 3}), 0, 1)));
  EXPECT_EQ(ones({}).size(0), 1);
}

// Every tensor of every sample is in protected memory: an op that writes to it must declare that in its record, and is
// rejected; an undeclared write crashes the test.
class GuardedMemory {
 public:
  Tensor copy(const Tensor& from) {
    const Tensor dense = contiguous(from);
    const size_t bytes = std::max<size_t>(static_cast<size_t>(dense.numel()) * size_of(dense.dtype()), 1);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STRATA_ASSERT(memory != MAP_FAILED);
    if (dense.numel()) std::memcpy(memory, dense.bytes(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
    ::mprotect(memory, bytes, PROT_READ);
    Tensor t = alias(*dense);
    struct Mapping {
      void* memory;
      size_t bytes;
    };
    t->storage = adopt_memory(
      memory, bytes,
      [](void* p) {
        const std::unique_ptr<Mapping> m(static_cast<Mapping*>(p));
        ::munmap(m->memory, m->bytes);
      },
      new Mapping{memory, bytes});
    t->storage->read_only = true;
    t->data = t->storage->data;
    return t;
  }
};

TEST(ReadOnly, NoOpWritesToMemoryItMayNotWrite) {
  int refused = 0;
  for (const OpRecord* op : all_ops())
    for (const char* text : op->sample_texts) {
      const Sample sample(*op, text, op->accepts.has(kFloat32) ? kFloat32 : kInt64);
      GuardedMemory memory;
      Args args = sample.args;
      std::vector<Tensor> tensors;
      std::vector<std::vector<Tensor>> lists(args.size);
      tensors.reserve(args.size);
      for (uint32_t i = 0; i < args.size; ++i) {
        if (args.is_tensor(i)) args[i] = Value(tensors.emplace_back(memory.copy(args.share(i))));
        if (args[i].tag != Tag::Tensors) continue;
        for (const Tensor& t : args[i].tensor_list()) lists[i].push_back(t ? memory.copy(t) : Tensor());
        args[i] = Value(TensorList(std::span<const Tensor>(lists[i])));
      }
      const auto try_it = [&](auto call_it) {
        try {
          call_it();
          return;
        } catch (const Error& e) { refused += std::string_view(e.what()).find("read-only") != std::string_view::npos; }
      };
      try_it([&] { run(*op, args); });
      if (op->has_inplace && args.size && args.is_tensor(0)) try_it([&] { call_inplace(*op, args); });
    }
  EXPECT_GT(refused, 200);
}

TEST(ReadOnly, StatisticsAreReadInEvaluationAndRefusedInTraining) {
  GuardedMemory memory;
  const Tensor mean = memory.copy(zeros({3})), var = memory.copy(ones({3})), x = ones({4, 3});
  EXPECT_NO_THROW(nn::functional::batch_norm(x, mean, var, {}, {}, false));
  EXPECT_ERROR(Runtime, "read-only", nn::functional::batch_norm(x, mean, var, {}, {}, true));
}

}  // namespace
}  // namespace strata
