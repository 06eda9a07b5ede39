// The published image sets, read from their files: MNIST, FashionMNIST (IDX) and CIFAR-10 (binary version).
#pragma once
#include <string>

#include "tensor/tensor.h"

namespace strata::data {

struct ImageSet {
  Tensor images;  // uint8: [n, 28, 28], or [n, 3, 32, 32]
  Tensor labels;  // int64: [n]
};

// MNIST or FashionMNIST, whose files have the same names. `root` is the folder of the four files, compressed with gzip
// or not, or one that holds MNIST/raw (`name`/raw), as in torchvision's layout. Throws Io with what was searched for
// and where to get it.
STRATA_API ImageSet mnist(const std::string& root, bool train, const std::string& name = "MNIST");
STRATA_API bool has_mnist(const std::string& root,
                          const std::string& name = "MNIST");  // whether all four files are there

// CIFAR-10: the folder of data_batch_1.bin …, one that holds cifar-10-batches-bin, or one that holds cifar-10-binary.tar.gz.
STRATA_API ImageSet cifar10(const std::string& root, bool train);

}  // namespace strata::data
