// The machine that interprets a pickle: its stack, its tables and the functions shared by pickle.cpp and
// pickle_calls.cpp.
#pragma once
#include <fmt/core.h>

#include <algorithm>

#include "nn/files/pickle.h"

namespace strata::files {

enum class PickleKind : uint8_t { None, Bool, Int, Float, Text, DType, Global, Tuple, List, Dict, Tensor, Storage };

// A stack entry: a number, or an index into one of the machine's tables. Containers are shared by index, like Python's
// references, and live as long as the machine: a list that contains itself is not freed twice.
struct PickleValue {
  PickleKind kind = PickleKind::None;
  union {
    int64_t i = 0;
    double f;
  };
};

class PickleMachine {
 public:
  PickleMachine(Bytes pickle, const std::string& file, StorageSource& storages, size_t budget)
      : left_(pickle), total_(pickle.size()), budget_(budget), file_(file), source_(storages) {}
  Tree run();

 private:
  using Kind = PickleKind;
  using Value = PickleValue;
  struct StorageView {
    Ref<Storage> storage;
    DType dtype;
    bool typed;
    uint64_t bytes;
  };

  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorKind::Runtime,
         fmt::format("'{}': the pickle is damaged or hostile at byte {}: {}", file_, total_ - left_.size(), what));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(
      ErrorKind::Runtime,
      fmt::format(
        "'{}' is not loaded: its pickle asks for {}, which would run code; pickles are never executed here. Where you "
        "trust the file, load it with PyTorch and save the state_dict alone, or as safetensors",
        file_, what));
  }

  // Counts memory before it is allocated: a small file must not become a large tree.
  void spend(size_t bytes) {
    if (bytes > budget_) bad("its data take more memory than the file and 48 MB");
    budget_ -= bytes;
  }

  // --- reading --------------------------------------------------------------------------------------------------------
  Bytes take(uint64_t n) {
    if (n > left_.size()) bad("it ends too early");
    const Bytes part = left_.first(n);
    left_ = left_.subspan(n);
    return part;
  }
  uint64_t number(size_t width) {
    uint64_t v = 0;
    const Bytes part = take(width);
    for (size_t i = 0; i < width; ++i) v |= std::to_integer<uint64_t>(part[i]) << (8 * i);
    return v;
  }
  std::string text(uint64_t n) {
    const Bytes part = take(n);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    const auto end = std::find(left_.begin(), left_.end(), std::byte{'\n'});
    if (end == left_.end()) bad("a line has no end");
    std::string s = text(static_cast<uint64_t>(end - left_.begin()));
    take(1);
    return s;
  }

  // --- the stack and the tables ---------------------------------------------------------------------------------------
  Value pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) bad("its stack is empty");
    const Value v = stack_.back();
    stack_.pop_back();
    return v;
  }
  Value& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) bad("its stack is empty");
    return stack_.back();
  }
  void push(Value v) { stack_.push_back(v); }
  void push_int(int64_t i, Kind kind = Kind::Int) {
    Value v;
    v.kind = kind;
    v.i = i;
    push(v);
  }
  template <class T> void push_new(Kind kind, std::vector<T>& table, T thing) {
    spend(sizeof(T) + 32);
    table.push_back(std::move(thing));
    push_int(static_cast<int64_t>(table.size()) - 1, kind);
  }
  void push_box(Kind kind, std::vector<Value> items) {
    spend(items.size() * sizeof(Value));
    push_new(kind, boxes_, std::move(items));
  }
  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) bad("there is no mark on its stack");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Value>& box(Value v) { return boxes_[static_cast<size_t>(v.i)]; }
  const std::string& text_of(Value v) const {
    if (v.kind != Kind::Text) bad("expected a text");
    return texts_[static_cast<size_t>(v.i)];
  }
  int64_t int_of(Value v) const {
    if (v.kind != Kind::Int) bad("expected an integer");
    return v.i;
  }
  std::vector<int64_t> ints_of(Value v) {
    if (v.kind != Kind::Tuple) bad("expected a tuple of integers");
    std::vector<int64_t> out;
    for (Value item : box(v)) out.push_back(int_of(item));
    return out;
  }
  void put(uint64_t index) {
    if (index >= memo_.size()) {
      spend((index + 1 - memo_.size()) * sizeof(Value));
      memo_.resize(index + 1);
      known_.resize(index + 1);
    }
    memo_[index] = top();
    known_[index] = true;
  }
  void get(uint64_t index) {
    if (index >= memo_.size() || !known_[index]) bad("it reads a memo entry that was not written");
    push(memo_[index]);
  }
  void extend(Kind kind, const std::vector<Value>& items) {
    const Value target = top();
    if (target.kind != kind)
      bad(kind == Kind::List ? "it appends to something that is not a list"
                             : "it sets items of something that is not a dict");
    if (kind == Kind::Dict && items.size() % 2) bad("a dict gets a key without a value");
    spend(2 * items.size() * sizeof(Value));
    box(target).insert(box(target).end(), items.begin(), items.end());
  }

  void step(uint8_t op);
  void push_tuple(size_t n);
  void push_long(uint64_t width);
  void push_float();
  Tree tree_of(Value v, int depth);
  // The names that a pickle may use: pickle_calls.cpp.
  void push_global(const std::string& name);
  void push_storage(Value id);
  void reduce();
  void call_ordered_dict(const std::vector<Value>& args);
  void rebuild(const std::vector<Value>& args, std::optional<DType> dtype);

  Bytes left_;
  size_t total_, budget_;
  const std::string& file_;
  StorageSource& source_;
  std::vector<Value> stack_, memo_;
  std::vector<bool> known_;
  std::vector<size_t> marks_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Value>> boxes_;
  std::vector<int64_t> ordered_, sizes_, parameters_;  // OrderedDicts and Sizes among boxes_, Parameters among tensors_
  std::vector<Tensor> tensors_;
  std::vector<StorageView> storages_;
};

}  // namespace strata::files
