#include "cpu/linalg/lapack.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/library.h"
#include "tensor/tensor.h"

namespace strata::cpu {
namespace {

// Fortran functions: all arguments by address, column-major matrices, string lengths last.
#define STRATA_LAPACK_ENTRIES(X)                                                                                      \
  X(dgetrf, (const int*, const int*, double*, const int*, int*, int*))                                                \
  X(dpotrf, (const char*, const int*, double*, const int*, int*, size_t))                                             \
  X(dgeqrf, (const int*, const int*, double*, const int*, double*, double*, const int*, int*))                        \
  X(dorgqr, (const int*, const int*, const int*, double*, const int*, const double*, double*, const int*, int*))      \
  X(dsyevd, (const char*, const char*, const int*, double*, const int*, double*, double*, const int*, int*, int*,     \
             int*, size_t, size_t))                                                                                   \
  X(dgesdd, (const char*, const int*, const int*, double*, const int*, double*, double*, const int*, double*,         \
             const int*, double*, const int*, int*, int*, size_t))                                                    \
  X(dtrsm, (const char*, const char*, const char*, const char*, const int*, const int*, const double*, const double*, \
            const int*, double*, const int*, size_t, size_t, size_t, size_t))

// OpenBLAS chooses its kernels when it is opened. For a processor that is newer than the library it takes those for SSE3,
// which are three times slower than the ones for the instructions that the processor has. The variable is set only while
// the library is opened, so that child processes do not inherit it.
class KernelChoice {
 public:
  KernelChoice() {
#if defined(__x86_64__)
    if (std::getenv(kVariable)) return;
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const bool medium = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!wide && !medium) return;
    setenv(kVariable, wide ? "SkylakeX" : "Haswell", 0);
    set_ = true;
#endif
  }
  ~KernelChoice() {
    if (set_) unsetenv(kVariable);
  }
  KernelChoice(const KernelChoice&) = delete;
  KernelChoice& operator=(const KernelChoice&) = delete;

 private:
  static constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  bool set_ = false;
};

struct Lapack {
#define STRATA_LAPACK_MEMBER(name, parameters) void(*name) parameters = nullptr;
  STRATA_LAPACK_ENTRIES(STRATA_LAPACK_MEMBER)
#undef STRATA_LAPACK_MEMBER
  int (*get_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  std::string why;

  // A plain liblapack may be the reference implementation, which is slower than ours: only OpenBLAS is used.
  Lapack() {
    const KernelChoice choice;
    Library library({.name = "OpenBLAS",
                     .files = {"libopenblas.so.0"},
                     .variable = "STRATA_LAPACK",
                     .advice = "install libopenblas0 for faster decompositions of large matrices"});
#define STRATA_LAPACK_LOAD(name, parameters) name = library.need<void(*) parameters>(#name "_");
    STRATA_LAPACK_ENTRIES(STRATA_LAPACK_LOAD)
#undef STRATA_LAPACK_LOAD
    get_threads = library.need<int (*)()>("openblas_get_num_threads");
    set_threads = library.need<void (*)(int)>("openblas_set_num_threads");
    why = library.why();
  }
};
const Lapack& lapack() {
  static const auto* opened = new Lapack;
  return *opened;
}

// One thread while we compute: the same bits each time, and no second thread pool besides ours. The setting is global
// to the library: the first to enter sets it, the last to leave restores it.
class OneThread {
 public:
  OneThread() {
    const std::lock_guard hold(lock);
    if (users++ > 0) return;
    before = lapack().get_threads();
    lapack().set_threads(1);
  }
  ~OneThread() {
    const std::lock_guard hold(lock);
    if (--users == 0) lapack().set_threads(before);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  inline static std::mutex lock;
  inline static int users = 0, before = 1;
};

// to (n x m) becomes the transpose of from (m x n), in tiles that fit a cache.
void transpose(const double* from, int64_t m, int64_t n, double* to) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t i = i0; i < std::min(m, i0 + kTile); ++i)
        for (int64_t j = j0; j < std::min(n, j0 + kTile); ++j) to[j * m + i] = from[i * n + j];
}

// A column-major copy of a matrix, converted back to rows.
class Columns {
 public:
  Columns(double* a, int64_t m, int64_t n) : a_(a), m_(m), n_(n), values_(static_cast<size_t>(m * n)) {
    transpose(a, m, n, values_.data());
  }
  double* get() { return values_.data(); }
  void put_back() { transpose(values_.data(), n_, m_, a_); }

 private:
  double* a_;
  int64_t m_, n_;
  std::vector<double> values_;
};

int64_t lu(double* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  if (!pivot) return dense_fast.lu_factor(a, m, n, pivots, pivot);
  const OneThread one;
  Columns columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n);
  std::vector<int> places(static_cast<size_t>(std::min(m, n)));
  int info = 0;
  lapack().dgetrf(&rows, &width, columns.get(), &rows, places.data(), &info);
  columns.put_back();
  if (pivots) std::ranges::copy(places, pivots);
  return std::max(info, 0);
}

// The lower triangle in row-major order is the upper one in column-major order.
int64_t cholesky(double* a, int64_t n) {
  const OneThread one;
  const int size = static_cast<int>(n);
  int info = 0;
  lapack().dpotrf("U", &size, a, &size, &info, 1);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, 0.0);
  return std::max(info, 0);
}

// X A^T = B^T in column-major order, which is A X = B in row-major order.
void solve(const double* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, double* b, int64_t r) {
  if (column != 1 && row != 1) return dense_fast.solve_triangle(a, row, column, n, upper, unit, b, r);
  const OneThread one;
  const bool by_rows = column == 1;
  const int size = static_cast<int>(n), width = static_cast<int>(r), stride = static_cast<int>(by_rows ? row : column);
  const double factor = 1;
  lapack().dtrsm("R", upper == by_rows ? "L" : "U", by_rows ? "N" : "T", unit ? "U" : "N", &width, &size, &factor, a,
                 &stride, b, &width, 1, 1, 1, 1);
}

void qr(double* a, int64_t m, int64_t n, double* tau) {
  const OneThread one;
  Columns columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n),
            room = static_cast<int>(64 * std::max<int64_t>(n, 1));
  std::vector<double> work(static_cast<size_t>(room));
  int info = 0;
  lapack().dgeqrf(&rows, &width, columns.get(), &rows, tau, work.data(), &room, &info);
  columns.put_back();
}

void make_q(const double* a, int64_t m, int64_t n, const double* tau, int64_t count, double* q, int64_t width) {
  const OneThread one;
  std::vector<double> columns(static_cast<size_t>(m * width), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < std::min({count, n, width}); ++j) columns[static_cast<size_t>(j * m + i)] = a[i * n + j];
  const int rows = static_cast<int>(m), wide = static_cast<int>(width), reflectors = static_cast<int>(count),
            room = static_cast<int>(64 * std::max<int64_t>(width, 1));
  std::vector<double> work(static_cast<size_t>(room));
  int info = 0;
  lapack().dorgqr(&rows, &wide, &reflectors, columns.data(), &rows, tau, work.data(), &room, &info);
  transpose(columns.data(), width, m, q);
}

// Eigenvectors are columns in column-major order: the rows of z.
bool eigen(double* a, int64_t n, double* w, double* z) {
  const OneThread one;
  const int size = static_cast<int>(n);
  int info = 0, room = -1, int_room = -1, int_wanted = 0;
  double wanted = 0;
  const char* what = z ? "V" : "N";
  lapack().dsyevd(what, "U", &size, a, &size, w, &wanted, &room, &int_wanted, &int_room, &info, 1, 1);
  room = static_cast<int>(wanted);
  int_room = int_wanted;
  std::vector<double> work(static_cast<size_t>(room));
  std::vector<int> int_work(static_cast<size_t>(int_room));
  lapack().dsyevd(what, "U", &size, a, &size, w, work.data(), &room, int_work.data(), &int_room, &info, 1, 1);
  if (z) std::copy_n(a, n * n, z);
  return info == 0;
}

bool singular(double* a, int64_t m, int64_t n, double* s, double* ut, int64_t columns, double* vt) {
  const OneThread one;
  Columns by_columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n);
  const char* what = !ut ? "N" : columns == m ? "A" : "S";
  std::vector<double> v(static_cast<size_t>(ut ? n * n : 1));
  std::vector<int> int_work(static_cast<size_t>(8 * n));
  int info = 0, room = -1;
  double wanted = 0, none = 0;
  double* u = ut ? ut : &none;
  const auto run = [&](double* work) {
    lapack().dgesdd(what, &rows, &width, by_columns.get(), &rows, s, u, &rows, v.data(), &width, work, &room,
                    int_work.data(), &info, 1);
  };
  run(&wanted);
  room = static_cast<int>(wanted);
  std::vector<double> work(static_cast<size_t>(room));
  run(work.data());
  if (ut) transpose(v.data(), n, n, vt);
  return info == 0;
}
}  // namespace

const Dense dense_lapack = {lu, cholesky, solve, qr, make_q, eigen, singular};

const char* lapack_objection(const TensorImpl& matrices, int64_t least) {
  if (matrices.ndim < 2) return "not a matrix";
  const int64_t m = matrices.shape[matrices.ndim - 2], n = matrices.shape[matrices.ndim - 1];
  if (std::min(m, n) < least) return "the matrices are small";
  if (std::max(m, n) > INT32_MAX / 64) return "the matrices are larger than LAPACK counts";
  return lapack().why.empty() ? nullptr : lapack().why.c_str();
}

}  // namespace strata::cpu
