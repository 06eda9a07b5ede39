// Tree: the contents of a checkpoint besides plain tensors, nested as in Python: numbers, texts, lists, dicts.
#pragma once
#include <optional>
#include <variant>

#include "files/safetensors.h"

namespace strata {

struct Tree;
struct TreeList {
  std::vector<Tree> items;
  bool tuple = false;
  bool size = false;  // a tuple that is a tensor's Size
};
struct TreeDict {
  std::vector<Tree> keys, values;  // of one length
  bool ordered = false;            // Python's OrderedDict
};
struct STRATA_API Tree {
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, DType, Tensor, TreeList, TreeDict>;
  Value value;
  bool parameter = false;  // of a tensor: a module's Parameter

  Tree() = default;  // None
  Tree(Value v) : value(std::move(v)) {}
  const Tree* find(std::string_view key) const;  // of a dict: the value of a text key; null if there is none
  template <class T> const T* get() const { return std::get_if<T>(&value); }
};

namespace files {

constexpr int kMaxDepth = 100;                   // of nesting
constexpr size_t kMaxNodes = 500'000;            // of one tree: untrusted files must not fill the memory
constexpr const char* kTreeKey = "strata.tree";  // the entry of __metadata__ that holds the structure

// A dict of texts to tensors becomes exactly that; otherwise tensors are named by their path ("optim.state.0.step") and
// the structure is stored as text in the metadata. Tensors that share memory are stored once and share it after loading.
STRATA_API SafeTensors to_safetensors(const Tree& tree);
STRATA_API Tree to_tree(SafeTensors contents, const std::string& file);

}  // namespace files
}  // namespace strata
