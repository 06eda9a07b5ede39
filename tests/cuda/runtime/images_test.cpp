// Kernels inside the library: they unpack to what was built, and damaged ones are refused.
#include "cuda/runtime/images.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace strata::cuda {
namespace {

TEST(Images, EveryOneUnpacks) {
  ASSERT_FALSE(images().empty());
  for (const Image& image : images()) {
    const std::string ptx = image.ptx.unpack(image.name);
    EXPECT_EQ(ptx.size(), image.ptx.unpacked_bytes()) << image.name;
    EXPECT_NE(ptx.find(".visible .entry "), std::string::npos) << image.name;
    EXPECT_EQ(image.machine.unpack(image.name).size(), image.machine.unpacked_bytes()) << image.name;
  }
}

// The smallest image, so that every byte can be tried.
const Image& smallest() {
  return *std::min_element(images().begin(), images().end(),
                           [](const Image& a, const Image& b) { return a.ptx.bytes.size() < b.ptx.bytes.size(); });
}

testing::AssertionResult refused_or_whole(const std::string& bytes, const std::string& whole) {
  try {
    const Packed damaged(bytes.data(), bytes.data() + bytes.size());
    if (damaged.unpack("damaged") == whole) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "other text, and no error";
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Io && std::string(e.what()).find("'damaged'") != std::string::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << e.what();
  }
}

TEST(Images, AFlippedByteIsRefused) {
  const Image& image = smallest();
  const std::string whole = image.ptx.unpack(image.name);
  for (size_t i = 0; i < image.ptx.bytes.size(); ++i)
    for (const int bit : {0, 3, 7}) {
      std::string bytes(image.ptx.bytes);
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      EXPECT_TRUE(refused_or_whole(bytes, whole)) << "byte " << i << ", bit " << bit;
    }
}

TEST(Images, ATruncatedOneIsRefused) {
  const Image& image = smallest();
  for (size_t size = 0; size < image.ptx.bytes.size(); ++size) {
    const Packed cut(image.ptx.bytes.data(), image.ptx.bytes.data() + size);
    EXPECT_THROW(cut.unpack("cut"), Error) << size << " of " << image.ptx.bytes.size() << " bytes";
  }
}

}  // namespace
}  // namespace strata::cuda
