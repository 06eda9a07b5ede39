#include "ops/copies_and_slopes.h"

#include <gtest/gtest.h>

#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

std::vector<float> values(const Tensor& t) {
  const Tensor dense = contiguous(t);
  return {dense.data<float>(), dense.data<float>() + dense.numel()};
}
using Floats = std::vector<float>;

TEST(ViewCopy, HasItsOwnMemory) {
  const Tensor x = arange(6.0);
  const Tensor y = view_copy(x, {2, -1}), bytes = view_copy(x, kInt32);
  EXPECT_EQ(values(y), values(x));
  EXPECT_EQ(y.size(1), 3);
  EXPECT_NE(y.data_ptr(), x.data_ptr());
  EXPECT_EQ(bytes.dtype(), kInt32);
  EXPECT_TRUE(equal(view(bytes, kFloat32), x));
  EXPECT_ERROR(Runtime, "invalid for input of size 6", view_copy(x, {4}));
}

TEST(SplitWithSizesCopy, CopiesEachPiece) {
  const Tensor x = arange(6.0);
  const std::vector<Tensor> pieces = split_with_sizes_copy(x, {2, 0, 4});
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(values(pieces[2]), (Floats{2, 3, 4, 5}));
  EXPECT_NE(pieces[0].data_ptr(), x.data_ptr());
  EXPECT_ERROR(Runtime, "sum exactly to 6", split_with_sizes_copy(x, {2}));
}

TEST(ChunkCat, FillsUpTheLastChunk) {  // the values are PyTorch's
  const Tensor a = reshape(arange(6.0), {3, 2}), b = arange(4.0);
  EXPECT_EQ(values(_chunk_cat({a, b}, 0, 2)), (Floats{0, 1, 2, 3, 0, 1, 4, 5, 0, 0, 2, 3}));
  EXPECT_ERROR(Runtime, "positive num_chunks", _chunk_cat({a}, 0, 0));
}

TEST(Gradient, IsExactForParabolas) {
  for (const Device device : {Device{}, Device("vgpu")}) {
    const Tensor x = reshape(arange(4.0), {4, 1}).to(device), y = reshape(arange(3.0), {1, 3}).to(device);
    const Tensor z = x * x + 3 * y;
    const std::vector<Tensor> slopes = gradient(z, 1, {}, 2);
    ASSERT_EQ(slopes.size(), 2u);
    EXPECT_EQ(values(slopes[0].cpu()), (Floats{0, 0, 0, 2, 2, 2, 4, 4, 4, 6, 6, 6}));
    EXPECT_EQ(values(slopes[1].cpu()), Floats(12, 3));
    EXPECT_EQ(values(gradient(z, 0.5, {0})[0].cpu())[0], 2);
    const Tensor places = tensor({0.0, 1.0, 4.0}).to(device);
    EXPECT_EQ(values(gradient(square(places), {places})[0].cpu()), (Floats{1, 2, 5}));
  }
}

TEST(Gradient, RejectsWhatHasNoNeighbors) {
  const Tensor x = arange(2.0);
  EXPECT_ERROR(Runtime, "at least 3 elements", gradient(x, 1, {}, 2));
  EXPECT_ERROR(Runtime, "edge_order must be 1 or 2", gradient(x, 1, {}, 3));
  EXPECT_ERROR(Index, "out of range", gradient(x, 1, {1}));
  EXPECT_ERROR(Runtime, "expected 2 coordinates", gradient(x, {arange(3.0)}));
  EXPECT_ERROR(Runtime, "found 2 tensors", gradient(x, {x, x}));
}

}  // namespace
}  // namespace strata
