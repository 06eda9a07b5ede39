#include "nn/files/pickle.h"

#include <fmt/core.h>

#include <bit>

#include "nn/files/pickle_machine.h"

namespace strata::files {

constexpr size_t kMaxStack = 200'000;

Tree PickleMachine::run() {
  for (;;) {
    const auto op = static_cast<uint8_t>(take(1)[0]);
    if (op == '.') {
      const Value result = pop();
      if (!stack_.empty()) bad("values are left over at the end");
      return tree_of(result, 0);
    }
    step(op);
    if (stack_.size() + marks_.size() > kMaxStack) bad("more than 200,000 values are on its stack");
  }
}

void PickleMachine::step(uint8_t op) {
  switch (op) {
    case 0x80:
      if (number(1) > 5) bad("its protocol is newer than 5");
      return;
    case 0x95: take(8); return;  // FRAME: the length is not needed
    case '(': marks_.push_back(stack_.size()); return;
    case '0': pop(); return;
    case '1': pop_to_mark(); return;
    case '2': push(top()); return;
    case 'N': push({}); return;
    case 0x88: push_int(1, Kind::Bool); return;
    case 0x89: push_int(0, Kind::Bool); return;
    case 'J': push_int(static_cast<int32_t>(number(4))); return;
    case 'K': push_int(static_cast<int64_t>(number(1))); return;
    case 'M': push_int(static_cast<int64_t>(number(2))); return;
    case 0x8a: push_long(number(1)); return;
    case 0x8b: push_long(number(4)); return;
    case 'G': push_float(); return;
    case 'X': push_new(Kind::Text, texts_, text(number(4))); return;
    case 0x8c: push_new(Kind::Text, texts_, text(number(1))); return;
    case 0x8d: push_new(Kind::Text, texts_, text(number(8))); return;
    case ')': push_box(Kind::Tuple, {}); return;
    case 't': push_box(Kind::Tuple, pop_to_mark()); return;
    case 0x85: push_tuple(1); return;
    case 0x86: push_tuple(2); return;
    case 0x87: push_tuple(3); return;
    case ']': push_box(Kind::List, {}); return;
    case 'l': push_box(Kind::List, pop_to_mark()); return;
    case '}': push_box(Kind::Dict, {}); return;
    case 'd': {
      const std::vector<Value> items = pop_to_mark();
      push_box(Kind::Dict, {});
      return extend(Kind::Dict, items);
    }
    case 'a': {
      const Value v = pop();
      return extend(Kind::List, {v});
    }
    case 'e': return extend(Kind::List, pop_to_mark());
    case 's': {
      const Value v = pop(), k = pop();
      return extend(Kind::Dict, {k, v});
    }
    case 'u': return extend(Kind::Dict, pop_to_mark());
    case 'q': return put(number(1));
    case 'r': return put(number(4));
    case 0x94: return put(memo_.size());
    case 'h': return get(number(1));
    case 'j': return get(number(4));
    case 'c': {
      const std::string module = line(), name = line();
      return push_global(module + "." + name);
    }
    case 0x93: {
      const std::string name = text_of(pop()), module = text_of(pop());
      return push_global(module + "." + name);
    }
    case 'Q': return push_storage(pop());
    case 'R': return reduce();
    case 'b': {
      // Data of an OrderedDict besides its items (state_dict's _metadata) is dropped.
      const Value state = pop();
      if (top().kind != Kind::Dict || (state.kind != Kind::Dict && state.kind != Kind::None))
        refuse("__setstate__ of an object");
      return;
    }
    case 'i': {
      const std::string module = line(), name = line();
      return refuse(module + "." + name);
    }
    case 'o': return refuse("an instance of a class");
    case 0x81:
    case 0x92: return refuse("an instance of a class");
    case 0x82:
    case 0x83:
    case 0x84: return refuse("a registered extension");
    default:
      bad(fmt::format("opcode 0x{:02x} is not among those of a checkpoint (bytes, sets and protocol 0 are not read)",
                      op));
  }
}
void PickleMachine::push_tuple(size_t n) {
  std::vector<Value> items(n);
  for (size_t i = n; i-- > 0;) items[i] = pop();
  push_box(Kind::Tuple, std::move(items));
}
void PickleMachine::push_long(uint64_t width) {
  if (width > 8) bad("an integer has more than 64 bits");
  uint64_t v = number(width);
  if (width && width < 8 && v >> (8 * width - 1)) v |= ~uint64_t{0} << (8 * width);  // the sign
  push_int(static_cast<int64_t>(v));
}
void PickleMachine::push_float() {
  uint64_t bits = 0;
  for (std::byte b : take(8)) bits = bits << 8 | std::to_integer<uint64_t>(b);
  Value v;
  v.kind = Kind::Float;
  v.f = std::bit_cast<double>(bits);
  push(v);
}

// Indices grow, so the lists are sorted.
static bool has(const std::vector<int64_t>& list, int64_t index) {
  return std::binary_search(list.begin(), list.end(), index);
}

// References become copies: the budget and the depth limit stop a pickle that doubles itself a hundred times, or
// contains itself.
Tree PickleMachine::tree_of(Value v, int depth) {
  if (depth > kMaxDepth) bad(fmt::format("its data are nested deeper than {} levels", kMaxDepth));
  spend(2 * sizeof(Tree));
  switch (v.kind) {
    case Kind::None: return {};
    case Kind::Bool: return Tree::Value(v.i != 0);
    case Kind::Int: return Tree::Value(v.i);
    case Kind::Float: return Tree::Value(v.f);
    case Kind::DType: return Tree::Value(static_cast<DType>(v.i));
    case Kind::Tensor: {
      Tree tensor = Tree::Value(tensors_[static_cast<size_t>(v.i)]);
      tensor.parameter = has(parameters_, v.i);
      return tensor;
    }
    case Kind::Text: spend(text_of(v).size()); return Tree::Value(text_of(v));
    case Kind::List:
    case Kind::Tuple: {
      TreeList list{{}, v.kind == Kind::Tuple, v.kind == Kind::Tuple && has(sizes_, v.i)};
      for (Value item : box(v)) list.items.push_back(tree_of(item, depth + 1));
      return Tree::Value(std::move(list));
    }
    case Kind::Dict: {
      TreeDict dict;
      dict.ordered = has(ordered_, v.i);
      const std::vector<Value>& items = box(v);
      for (size_t i = 0; i < items.size(); i += 2) {
        dict.keys.push_back(tree_of(items[i], depth + 1));
        dict.values.push_back(tree_of(items[i + 1], depth + 1));
      }
      return Tree::Value(std::move(dict));
    }
    case Kind::Storage: bad("it holds a storage without a tensor; save tensors");
    case Kind::Global: bad("it holds a function");
  }
  return {};
}

Tree read_pickle(Bytes pickle, const std::string& file, StorageSource& storages, size_t budget) {
  return PickleMachine(pickle, file, storages, budget).run();
}

}  // namespace strata::files
