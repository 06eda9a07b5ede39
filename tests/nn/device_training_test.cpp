// Training on the virtual GPU from C++: a captured step, batches copied ahead.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/runtime/graph.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

const Device kDevice{DeviceType::Vgpu, 0};

Tensor there(const Tensor& t) { return to(t, std::optional(kDevice)); }
std::vector<float> values(const Tensor& t) {
  const Tensor here = contiguous(to(autograd::detach(t), std::optional(Device{})));
  const auto* p = here.data<float>();
  return {p, p + here.numel()};
}

struct Cnn {
  nn::Conv2d first{1, 3, 3, {.padding = 1}};
  nn::Linear last{3 * 16, 5};
  Cnn() {
    first.to(kDevice);
    last.to(kDevice);
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all = first.parameters();
    for (const Tensor& p : last.parameters()) all.push_back(p);
    return all;
  }
  Tensor operator()(const Tensor& x) {
    return last(flatten(nn::functional::max_pool2d(nn::functional::relu(first(x)), {2}), 1));
  }
};

// The losses of some steps and the last weights; with a graph, all steps but the first are replays.
std::vector<float> train(bool captured) {
  manual_seed(5);
  Cnn net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01, .capturable = 1});
  const Tensor x = there(zeros({4, 1, 8, 8})), target = there(zeros({4}, DType::I64)), loss = there(zeros({}));
  const auto step = [&] {
    optimizer.zero_grad();
    const Tensor now = nn::functional::cross_entropy(net(x), target);
    now.backward();
    optimizer.step();
    const autograd::NoGrad off;
    copy_(loss, now);
  };
  cuda::Gpu& gpu = cuda::Runtime::gpu(kDevice);
  const cuda::Stream usual = cuda::Stream::current(gpu), side = cuda::Stream::create(gpu);
  std::optional<cuda::Graph> graph;
  Generator generator(1);
  std::vector<float> result;
  for (int i = 0; i < 5; ++i) {
    copy_(x, randn({4, 1, 8, 8}, &generator));
    copy_(target, randint(5, {4}, &generator));
    if (captured && i == 1) {
      gpu.activate();
      usual.synchronize();
      cuda::Stream::set_current(side);
      graph = cuda::Graph::begin(side);
      step();
      graph->end();
      cuda::Stream::set_current(usual);
    }
    if (graph) graph->replay(usual);
    else step();
    result.push_back(values(loss)[0]);
  }
  for (const Tensor& p : net.parameters())
    for (float v : values(p)) result.push_back(v);
  return result;
}

TEST(DeviceTraining, ReplaysAreEagerStepsInBits) {
  const std::vector<float> eager = train(false), replayed = train(true);
  ASSERT_EQ(eager.size(), replayed.size());
  EXPECT_EQ(std::memcmp(eager.data(), replayed.data(), eager.size() * sizeof(float)), 0);
  EXPECT_NE(eager[1], eager[4]);
}

TEST(DeviceTraining, StateIsNotMadeWhileAGraphIsCaptured) {
  Tensor p = there(ones({3})).set_requires_grad();
  p.set_grad(there(ones({3})));
  optim::Adam captured({p}, {.capturable = 1}), counted({p});
  counted.step();
  cuda::Gpu& gpu = cuda::Runtime::gpu(kDevice);
  const cuda::Stream usual = cuda::Stream::current(gpu), side = cuda::Stream::create(gpu);
  cuda::Stream::set_current(side);
  {
    const cuda::Graph graph = cuda::Graph::begin(side);
    EXPECT_ERROR(Runtime, "take a step before the capture", captured.step());
    EXPECT_ERROR(Runtime, "capturable=True", counted.step());
  }
  cuda::Stream::set_current(usual);
  captured.step();
  EXPECT_EQ(captured.state_dict().at(0).second.device(), kDevice);
  optim::Adam other({p}, {.capturable = 0});
  other.load_state_dict(captured.state_dict());
  EXPECT_EQ(other.option("capturable"), 0);
  EXPECT_EQ(other.state_dict().at(0).second.device(), Device{});
}

TEST(DeviceTraining, LoadersCopyBatchesAhead) {
  const Tensor all = arange(0, 23, 1, DType::F32);
  for (const int workers : {0, 2}) {
    data::DataLoader loader(data::TensorDataset({all}),
                            {.batch_size = 5, .num_workers = workers, .prefetch_device = Device{DeviceType::Vgpu}});
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<float> seen;
      for (const data::Example& batch : loader) {
        EXPECT_EQ(batch[0].device(), kDevice);
        for (float v : values(batch[0])) seen.push_back(v);
      }
      EXPECT_EQ(seen, values(all));
    }
  }
}

class Broken : public data::Dataset {
 public:
  int64_t size() const override { return 4; }
  data::Example get(int64_t i) const override {
    STRATA_CHECK(i != 2, Value, "no sample {}", i);
    return {full({}, static_cast<double>(i))};
  }
};

TEST(DeviceTraining, AnErrorComesWhereItsBatchIsDue) {
  data::DataLoader loader(Broken(), {.prefetch_device = kDevice});
  auto at = loader.begin();
  EXPECT_EQ(values((*at)[0])[0], 0);
  ++at;
  EXPECT_EQ(values((*at)[0])[0], 1);
  EXPECT_ERROR(Value, "no sample 2", ++at);
  ++at;
  EXPECT_EQ(values((*at)[0])[0], 3);
  ++at;
  EXPECT_TRUE(at == loader.end());
}

}  // namespace
}  // namespace strata
