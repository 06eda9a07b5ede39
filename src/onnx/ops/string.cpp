// Texts: joined, split, normalized, and counted as n-grams.
#include <set>

#include "base/host_memory.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

const Strings& texts_of(const NodeCall& c, size_t i) {
  const Value& v = c.value(i);
  STRATA_CHECK(v.strings, Type, "input {} is {}; expected texts", i, kind_of(v));
  return *v.strings;
}

Values concat_texts(NodeCall& c) {
  const Strings &a = texts_of(c, 0), &b = texts_of(c, 1);
  const auto places = [](const Strings& s) {
    return reshape(arange(static_cast<int64_t>(s.items.size()), TensorOptions(DType::I64)), s.shape);
  };
  const Tensor tensors[] = {places(a), places(b)};
  const std::vector<Tensor> both = broadcast_tensors(tensors);
  const Tensor left = contiguous(both[0]), right = contiguous(both[1]);
  Strings out{sizes_of(left), {}};
  for (int64_t i = 0; i < left.numel(); ++i)
    out.items.push_back(a.items[static_cast<size_t>(left.data<int64_t>()[i])] +
                        b.items[static_cast<size_t>(right.data<int64_t>()[i])]);
  return {Value::of(std::move(out))};
}

bool is_space(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }
std::vector<std::string> split_words(const std::string& s, int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at < s.size()) {
    while (at < s.size() && is_space(s[at])) ++at;
    if (at == s.size()) break;
    size_t end = at;
    if (static_cast<int64_t>(parts.size()) == most) {  // the rest, without spaces at its end
      end = s.size();
      while (end > at && is_space(s[end - 1])) --end;
      parts.push_back(s.substr(at, end - at));
      break;
    }
    while (end < s.size() && !is_space(s[end])) ++end;
    parts.push_back(s.substr(at, end - at));
    at = end;
  }
  return parts;
}
std::vector<std::string> split_at(const std::string& s, std::string_view delimiter, int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (;;) {
    const size_t end = static_cast<int64_t>(parts.size()) == most ? std::string::npos : s.find(delimiter, at);
    parts.push_back(s.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + delimiter.size();
  }
}
Values split_texts(NodeCall& c) {
  const Strings& x = texts_of(c, 0);
  const std::string_view delimiter = c.text("delimiter", "");
  const int64_t most = c.integer("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> rows;
  size_t widest = 0;
  Ints counts;
  for (const std::string& s : x.items) {
    rows.push_back(delimiter.empty() ? split_words(s, most) : split_at(s, delimiter, most));
    widest = std::max(widest, rows.back().size());
    counts.push_back(static_cast<int64_t>(rows.back().size()));
  }
  Strings out{x.shape, {}};
  out.shape.push_back(static_cast<int64_t>(widest));
  for (std::vector<std::string>& row : rows) {
    row.resize(widest);
    out.items.insert(out.items.end(), row.begin(), row.end());
  }
  return {Value::of(std::move(out)), Value(reshape(host_ints(counts), x.shape))};
}

std::string changed_case(std::string s, bool upper) {  // of ASCII letters; others stay
  for (char& ch : s) {
    if (upper && ch >= 'a' && ch <= 'z') ch = static_cast<char>(ch - 'a' + 'A');
    if (!upper && ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
  }
  return s;
}
Values normalize_texts(NodeCall& c) {
  const Strings& x = texts_of(c, 0);
  STRATA_CHECK(x.shape.size() == 1 || (x.shape.size() == 2 && x.shape[0] == 1), Value,
               "the input has the shape {}; expected [C] or [1, C]", to_string(Shape(x.shape)));
  const std::string_view action = c.text("case_change_action", "NONE");
  STRATA_CHECK(action == "NONE" || action == "LOWER" || action == "UPPER", Value, "case_change_action is '{}'", action);
  const bool sensitive = c.flag("is_case_sensitive");
  std::set<std::string> stop;
  for (const std::string& word : c.texts("stopwords")) stop.insert(sensitive ? word : changed_case(word, false));
  Strings out{x.shape, {}};
  for (const std::string& word : x.items) {
    if (stop.contains(sensitive ? word : changed_case(word, false))) continue;
    out.items.push_back(action == "NONE" ? word : changed_case(word, action == "UPPER"));
  }
  if (out.items.empty()) out.items.emplace_back();
  out.shape.back() = static_cast<int64_t>(out.items.size());
  return {Value::of(std::move(out))};
}

// The n-grams of a pool, by their tokens; and where they are counted.
struct Grams {
  std::map<std::vector<std::string>, size_t> index;
  Ints columns;
  std::vector<double> weights;
};
Grams grams_of(const NodeCall& c) {
  Grams g;
  std::vector<std::string> pool = c.texts("pool_strings");
  if (pool.empty())
    for (const int64_t v : c.ints("pool_int64s")) pool.push_back(std::to_string(v));
  const Ints starts = c.ints("ngram_counts");
  g.columns = c.ints("ngram_indexes");
  g.weights = c.numbers("weights");
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto begin = static_cast<size_t>(starts[n - 1]),
               end = n < starts.size() ? static_cast<size_t>(starts[n]) : pool.size();
    STRATA_CHECK(starts[n - 1] >= 0 && begin <= end && end <= pool.size() && (end - begin) % n == 0, Value,
                 "ngram_counts and the pool do not fit");
    for (size_t at = begin; at < end; at += n) {
      const auto first = pool.begin() + static_cast<std::ptrdiff_t>(at);
      g.index.emplace(std::vector<std::string>(first, first + static_cast<std::ptrdiff_t>(n)), g.index.size());
    }
  }
  STRATA_CHECK(g.index.size() <= g.columns.size() && (g.weights.empty() || g.weights.size() == g.columns.size()), Value,
               "{} n-grams, {} indexes and {} weights", g.index.size(), g.columns.size(), g.weights.size());
  return g;
}
Values count_grams(NodeCall& c) {
  const Value& v = c.value(0);
  std::vector<std::string> tokens;
  if (v.strings) tokens = v.strings->items;
  else
    for (const int64_t t : c.ints(size_t{0})) tokens.push_back(std::to_string(t));
  const Ints shape = v.strings ? v.strings->shape : sizes_of(v.tensor);
  STRATA_CHECK(shape.size() == 1 || shape.size() == 2, Value, "the input has {} dimensions; expected 1 or 2",
               shape.size());
  const Grams g = grams_of(c);
  const int64_t columns = g.columns.empty() ? 0 : *std::max_element(g.columns.begin(), g.columns.end()) + 1;
  STRATA_CHECK(std::all_of(g.columns.begin(), g.columns.end(), [](int64_t i) { return i >= 0; }), Value,
               "an index is negative");
  const int64_t rows = shape.size() == 2 ? shape[0] : 1, width = shape.back();
  check_host_memory((Checked(rows) * columns).get(), sizeof(double), "TfIdfVectorizer");
  std::vector<double> out(static_cast<size_t>(rows * columns));
  const int64_t least = c.integer("min_gram_length"), longest = c.integer("max_gram_length"),
                skips = c.integer("max_skip_count");
  STRATA_CHECK(least >= 1 && longest >= least && skips >= 0, Value, "grams of {} to {} tokens with {} skips", least,
               longest, skips);
  const std::string_view mode = c.text("mode");
  STRATA_CHECK(mode == "TF" || mode == "IDF" || mode == "TFIDF", Value, "mode is '{}'", mode);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t skip = 0; skip <= std::min(skips, width); ++skip)
      for (int64_t n = least; n <= std::min(longest, width); ++n) {
        if (n == 1 && skip > 0) continue;  // skips change nothing
        for (int64_t at = 0; at + (n - 1) * (skip + 1) < width; ++at) {
          std::vector<std::string> gram;
          for (int64_t k = 0; k < n; ++k) gram.push_back(tokens[static_cast<size_t>(r * width + at + k * (skip + 1))]);
          const auto found = g.index.find(gram);
          if (found == g.index.end()) continue;
          double& cell = out[static_cast<size_t>(r * columns + g.columns[found->second])];
          const double weight = mode == "TF" || g.weights.empty() ? 1 : g.weights[found->second];
          cell = mode == "IDF" ? weight : cell + weight;
        }
      }
  const Tensor counts = cast(tensor(out), DType::F32);
  return one(moved(shape.size() == 2 ? reshape(counts, {rows, columns}) : counts, c.network().device()));
}

const OpEntry kString[] = {
  {"StringConcat", 20, 2, 2, nullptr, concat_texts},
  {"StringSplit", 20, 1, 1, nullptr, split_texts},
  {"StringNormalizer", 10, 1, 1, nullptr, normalize_texts},
  {"TfIdfVectorizer", 9, 1, 1, nullptr, count_grams},
};
}  // namespace

OpTable string_ops() { return kString; }

}  // namespace strata::onnx
