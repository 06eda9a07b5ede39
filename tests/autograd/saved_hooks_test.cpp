// Saved-tensor hooks from C++.
#include "autograd/saved_hooks.h"
#include "tests/autograd/values.h"

namespace strata {
namespace {
using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct ScopedHooks {
  explicit ScopedHooks(autograd::SavedTensorHooks hooks) { autograd::push_saved_hooks(std::move(hooks)); }
  ScopedHooks(const ScopedHooks&) = delete;
  ScopedHooks& operator=(const ScopedHooks&) = delete;
  ~ScopedHooks() { autograd::pop_saved_hooks(); }
};

TEST(SavedHooks, PackAndUnpackEachSavedTensor) {
  int packed = 0, unpacked = 0;
  const Tensor x = leaf({2, 3}), y = leaf({5, 7});
  Tensor product;
  {
    const ScopedHooks hooks({[&](const Tensor& t) {
                               ++packed;
                               return std::make_shared<Tensor>(t * 1);
                             },
                             [&](const std::shared_ptr<void>& p) {
                               ++unpacked;
                               return *static_cast<Tensor*>(p.get());
                             }});
    product = x * y;
  }
  EXPECT_EQ(packed, 2);
  EXPECT_EQ(unpacked, 0);
  sum(product).backward();
  EXPECT_EQ(unpacked, 2);
  EXPECT_EQ(numbers(x.grad()), (Numbers{5, 7}));
  EXPECT_EQ(numbers(y.grad()), (Numbers{2, 3}));
}

TEST(SavedHooks, PopWithoutPushIsAnError) { EXPECT_THROW(autograd::pop_saved_hooks(), Error); }

TEST(SavedHooks, CanBeForbidden) {
  EXPECT_TRUE(autograd::forbid_saved_hooks("not here").empty());
  EXPECT_THROW(autograd::push_saved_hooks({}), Error);
  EXPECT_EQ(autograd::forbid_saved_hooks(""), "not here");
}

}  // namespace
}  // namespace strata
