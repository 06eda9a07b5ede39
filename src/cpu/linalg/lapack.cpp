#include "cpu/linalg/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

#include "base/library.h"
#include "tensor/tensor.h"

namespace strata::cpu {
namespace {

// Fortran functions: all arguments by address, column-major matrices, string lengths last. `t` is the letter of the type T in
// their names, R the type of its parts.
#define STRATA_LAPACK_COMMON(X, t, T)                                                                                \
  X(t, getrf, getrf, (const int*, const int*, T*, const int*, int*, int*))                                           \
  X(t, potrf, potrf, (const char*, const int*, T*, const int*, int*, size_t))                                        \
  X(t, geqrf, geqrf, (const int*, const int*, T*, const int*, T*, T*, const int*, int*))                             \
  X(t, trsm, trsm,                                                                                                   \
    (const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*, const int*, T*, \
     const int*, size_t, size_t, size_t, size_t))
#define STRATA_LAPACK_REAL(X, t, T)                                                                                 \
  STRATA_LAPACK_COMMON(X, t, T)                                                                                     \
  X(t, orgqr, orgqr, (const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*))          \
  X(t, syevd, syevd,                                                                                                \
    (const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, int*, int*, size_t, size_t))   \
  X(t, gesdd, gesdd,                                                                                                \
    (const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*, const int*, int*, \
     int*, size_t))                                                                                                 \
  X(t, geev, geev,                                                                                                  \
    (const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*, const int*, T*, const int*,  \
     int*, size_t, size_t))
// Complex ones have other names and an array of real numbers more.
#define STRATA_LAPACK_COMPLEX(X, t, T, R)                                                                          \
  STRATA_LAPACK_COMMON(X, t, T)                                                                                    \
  X(t, orgqr, ungqr, (const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*))         \
  X(t, syevd, heevd,                                                                                               \
    (const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*, const int*, int*, int*, int*,   \
     size_t, size_t))                                                                                              \
  X(t, gesdd, gesdd,                                                                                               \
    (const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*, const int*, T*, const int*, R*,  \
     int*, int*, size_t))                                                                                          \
  X(t, geev, geev,                                                                                                 \
    (const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*, const int*, R*, \
     int*, size_t, size_t))

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

#define STRATA_LAPACK_MEMBER(letter, member, name, parameters) void(*member) parameters = nullptr;
template <class T> struct Routines { STRATA_LAPACK_REAL(STRATA_LAPACK_MEMBER, t, T) };
template <class R> struct Routines<std::complex<R>> {
  STRATA_LAPACK_COMPLEX(STRATA_LAPACK_MEMBER, t, std::complex<R>, R)
};
#undef STRATA_LAPACK_MEMBER

struct Lapack {
  Routines<float> single;
  Routines<double> twice;
  Routines<std::complex<float>> single_complex;
  Routines<std::complex<double>> twice_complex;
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
    const auto load = [&]<class F>(F& member, const char* name) { member = library.need<F>(name); };
#define STRATA_LAPACK_LOAD_S(letter, member, name, parameters) load(single.member, #letter #name "_");
#define STRATA_LAPACK_LOAD_D(letter, member, name, parameters) load(twice.member, #letter #name "_");
#define STRATA_LAPACK_LOAD_C(letter, member, name, parameters) load(single_complex.member, #letter #name "_");
#define STRATA_LAPACK_LOAD_Z(letter, member, name, parameters) load(twice_complex.member, #letter #name "_");
    STRATA_LAPACK_REAL(STRATA_LAPACK_LOAD_S, s, float)
    STRATA_LAPACK_REAL(STRATA_LAPACK_LOAD_D, d, double)
    STRATA_LAPACK_COMPLEX(STRATA_LAPACK_LOAD_C, c, std::complex<float>, float)
    STRATA_LAPACK_COMPLEX(STRATA_LAPACK_LOAD_Z, z, std::complex<double>, double)
#undef STRATA_LAPACK_LOAD_S
#undef STRATA_LAPACK_LOAD_D
#undef STRATA_LAPACK_LOAD_C
#undef STRATA_LAPACK_LOAD_Z
    get_threads = library.need<int (*)()>("openblas_get_num_threads");
    set_threads = library.need<void (*)(int)>("openblas_set_num_threads");
    why = library.why();
  }
};
const Lapack& lapack() {
  static const auto* opened = new Lapack;
  return *opened;
}
template <class T> const Routines<T>& routines() {
  if constexpr (std::is_same_v<T, float>) return lapack().single;
  else if constexpr (std::is_same_v<T, double>) return lapack().twice;
  else if constexpr (std::is_same_v<T, std::complex<float>>) return lapack().single_complex;
  else return lapack().twice_complex;
}
template <class T> using RealOf = typename Dense<T>::Real;
template <class T> constexpr bool kIsReal = std::is_same_v<T, RealOf<T>>;

// A copy of complex numbers in double, for our own functions where LAPACK has none.
template <class T> class InDouble {
 public:
  InDouble(const T* from, int64_t count) : values_(from, from + count) {}
  std::complex<double>* get() { return values_.data(); }
  void put_back(T* to) const {
    std::ranges::transform(values_, to, [](std::complex<double> z) { return T(z); });
  }

 private:
  std::vector<std::complex<double>> values_;
};

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
template <class T> void transpose(const T* from, int64_t m, int64_t n, T* to) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t i = i0; i < std::min(m, i0 + kTile); ++i)
        for (int64_t j = j0; j < std::min(n, j0 + kTile); ++j) to[j * m + i] = from[i * n + j];
}

// The size of a workspace that LAPACK returned as a T, which may have rounded it down.
template <class T> int rounded_up(T size) {
  using Real = RealOf<T>;
  return static_cast<int>(std::nextafter(std::real(size), std::numeric_limits<Real>::max()));
}

// A column-major copy of a matrix, converted back to rows.
template <class T> class Columns {
 public:
  Columns(T* a, int64_t m, int64_t n) : a_(a), m_(m), n_(n), values_(static_cast<size_t>(m * n)) {
    transpose(a, m, n, values_.data());
  }
  T* get() { return values_.data(); }
  void put_back() { transpose(values_.data(), n_, m_, a_); }

 private:
  T* a_;
  int64_t m_, n_;
  std::vector<T> values_;
};

template <class T> int64_t lu_without_exchanges(T* a, int64_t m, int64_t n, int32_t* pivots) {
  if constexpr (kIsReal<T>) {
    return dense_fast<T>().lu_factor(a, m, n, pivots, false);
  } else {
    InDouble<T> wide(a, m * n);
    const int64_t info = dense_complex.lu_factor(wide.get(), m, n, pivots, false);
    wide.put_back(a);
    return info;
  }
}
template <class T> int64_t lu(T* a, int64_t m, int64_t n, int32_t* pivots, bool pivot) {
  if (!pivot) return lu_without_exchanges(a, m, n, pivots);
  const OneThread one;
  Columns<T> columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n);
  std::vector<int> places(static_cast<size_t>(std::min(m, n)));
  int info = 0;
  routines<T>().getrf(&rows, &width, columns.get(), &rows, places.data(), &info);
  columns.put_back();
  if (pivots) std::ranges::copy(places, pivots);
  return std::max(info, 0);
}

// The lower triangle in row-major order is the upper one in column-major order.
template <class T> int64_t cholesky(T* a, int64_t n) {
  const OneThread one;
  const int size = static_cast<int>(n);
  int info = 0;
  routines<T>().potrf("U", &size, a, &size, &info, 1);
  for (int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, T(0));
  return std::max(info, 0);
}

// X A^T = B^T in column-major order, which is A X = B in row-major order.
template <class T>
void solve(const T* a, int64_t row, int64_t column, int64_t n, bool upper, bool unit, T* b, int64_t r) {
  STRATA_ASSERT(column == 1 || row == 1);
  const OneThread one;
  const bool by_rows = column == 1;
  const int size = static_cast<int>(n), width = static_cast<int>(r), stride = static_cast<int>(by_rows ? row : column);
  const T factor = 1;
  routines<T>().trsm("R", upper == by_rows ? "L" : "U", by_rows ? "N" : "T", unit ? "U" : "N", &width, &size, &factor,
                     a, &stride, b, &width, 1, 1, 1, 1);
}

template <class T> void qr(T* a, int64_t m, int64_t n, T* tau) {
  const OneThread one;
  Columns<T> columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n),
            room = static_cast<int>(64 * std::max<int64_t>(n, 1));
  std::vector<T> work(static_cast<size_t>(room));
  int info = 0;
  routines<T>().geqrf(&rows, &width, columns.get(), &rows, tau, work.data(), &room, &info);
  columns.put_back();
}

template <class T> void make_q(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, T* q, int64_t width) {
  const OneThread one;
  std::vector<T> columns(static_cast<size_t>(m * width), T(0));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < std::min({count, n, width}); ++j) columns[static_cast<size_t>(j * m + i)] = a[i * n + j];
  const int rows = static_cast<int>(m), wide = static_cast<int>(width), reflectors = static_cast<int>(count),
            room = static_cast<int>(64 * std::max<int64_t>(width, 1));
  std::vector<T> work(static_cast<size_t>(room));
  int info = 0;
  routines<T>().orgqr(&rows, &wide, &reflectors, columns.data(), &rows, tau, work.data(), &room, &info);
  transpose(columns.data(), width, m, q);
}

// Our own is as fast for a few columns, which is the common case.
template <class T>
void apply_own_q(const T* a, int64_t m, int64_t n, const T* tau, int64_t count, bool transposed, T* b, int64_t r) {
  if constexpr (kIsReal<T>) {
    dense_fast<T>().apply_q(a, m, n, tau, count, transposed, b, r);
  } else {
    InDouble<T> v(a, m * n), factors(tau, count), x(b, m * r);
    dense_complex.apply_q(v.get(), m, n, factors.get(), count, transposed, x.get(), r);
    x.put_back(b);
  }
}

// Eigenvectors are columns in column-major order: the rows of z. Complex ones are those of the transpose, the conjugates.
template <class T> bool eigen(T* a, int64_t n, RealOf<T>* w, T* z) {
  const OneThread one;
  const int size = static_cast<int>(n);
  int info = 0, room = -1, real_room = -1, int_room = -1, int_wanted = 0;
  T wanted = 0;
  RealOf<T> real_wanted = 0;
  const char* what = z ? "V" : "N";
  const auto run = [&](T* work, RealOf<T>* real_work, int* int_work) {
    if constexpr (kIsReal<T>)
      routines<T>().syevd(what, "U", &size, a, &size, w, work, &room, int_work, &int_room, &info, 1, 1);
    else
      routines<T>().syevd(what, "U", &size, a, &size, w, work, &room, real_work, &real_room, int_work, &int_room, &info,
                          1, 1);
  };
  run(&wanted, &real_wanted, &int_wanted);
  room = rounded_up(wanted);
  real_room = rounded_up(real_wanted);
  int_room = int_wanted;
  std::vector<T> work(static_cast<size_t>(room));
  std::vector<RealOf<T>> real_work(static_cast<size_t>(real_room));
  std::vector<int> int_work(static_cast<size_t>(int_room));
  run(work.data(), real_work.data(), int_work.data());
  if (!z) return info == 0;
  if constexpr (kIsReal<T>) std::copy_n(a, n * n, z);
  else std::transform(a, a + n * n, z, [](T x) { return std::conj(x); });
  return info == 0;
}

template <class T> bool singular(T* a, int64_t m, int64_t n, RealOf<T>* s, T* ut, int64_t columns, T* vt) {
  const OneThread one;
  Columns<T> by_columns(a, m, n);
  const int rows = static_cast<int>(m), width = static_cast<int>(n);
  const char* what = !ut ? "N" : columns == m ? "A" : "S";
  std::vector<T> v(static_cast<size_t>(ut ? n * n : 1));
  std::vector<int> int_work(static_cast<size_t>(8 * n));
  std::vector<RealOf<T>> real_work(static_cast<size_t>(kIsReal<T> ? 0 : n * std::max(5 * n + 7, 2 * m + 2 * n + 1)));
  int info = 0, room = -1;
  T wanted = 0, none = 0;
  T* u = ut ? ut : &none;
  const auto run = [&](T* work) {
    if constexpr (kIsReal<T>)
      routines<T>().gesdd(what, &rows, &width, by_columns.get(), &rows, s, u, &rows, v.data(), &width, work, &room,
                          int_work.data(), &info, 1);
    else
      routines<T>().gesdd(what, &rows, &width, by_columns.get(), &rows, s, u, &rows, v.data(), &width, work, &room,
                          real_work.data(), int_work.data(), &info, 1);
  };
  run(&wanted);
  room = rounded_up(wanted);
  std::vector<T> work(static_cast<size_t>(room));
  run(work.data());
  if (ut) transpose(v.data(), n, n, vt);
  return info == 0;
}

// For real matrices, two columns are the real and the imaginary part of the vectors of a pair of eigenvalues.
template <class T> bool eigen_of_any(T* a, int64_t n, std::complex<RealOf<T>>* w, std::complex<RealOf<T>>* z) {
  using Number = std::complex<RealOf<T>>;
  const OneThread one;
  Columns<T> columns(a, n, n);
  const int size = static_cast<int>(n);
  const char* what = z ? "V" : "N";
  std::vector<T> vectors(static_cast<size_t>(z ? n * n : 1)), re(static_cast<size_t>(n)), im(static_cast<size_t>(n));
  std::vector<RealOf<T>> real_work(static_cast<size_t>(2 * n));
  int info = 0, room = -1;
  T wanted = 0, none = 0;
  const auto run = [&](T* work) {
    if constexpr (kIsReal<T>)
      routines<T>().geev("N", what, &size, columns.get(), &size, re.data(), im.data(), &none, &size, vectors.data(),
                         &size, work, &room, &info, 1, 1);
    else
      routines<T>().geev("N", what, &size, columns.get(), &size, w, &none, &size, vectors.data(), &size, work, &room,
                         real_work.data(), &info, 1, 1);
  };
  run(&wanted);
  room = rounded_up(wanted);
  std::vector<T> work(static_cast<size_t>(room));
  run(work.data());
  if constexpr (kIsReal<T>) {
    for (int64_t i = 0; i < n; ++i) w[i] = {re[static_cast<size_t>(i)], im[static_cast<size_t>(i)]};
    for (int64_t k = 0; z && k < n; ++k) {
      const bool first = w[k].imag() > 0, second = w[k].imag() < 0;
      const T* column = vectors.data() + (second ? k - 1 : k) * n;
      for (int64_t i = 0; i < n; ++i)
        z[k * n + i] = first    ? Number(column[i], column[i + n])
                       : second ? Number(column[i], -column[i + n])
                                : column[i];
    }
  } else if (z) {
    std::ranges::copy(vectors, z);
  }
  return info == 0;
}
template <class T>
constexpr Dense<T> kTable{lu<T>,          cholesky<T>, solve<T>,    qr<T>,          make_q<T>,
                          apply_own_q<T>, eigen<T>,    singular<T>, eigen_of_any<T>};
}  // namespace

template <> const Dense<float>& dense_lapack<float>() { return kTable<float>; }
template <> const Dense<double>& dense_lapack<double>() { return kTable<double>; }
template <> const Dense<std::complex<float>>& dense_lapack() { return kTable<std::complex<float>>; }
template <> const Dense<std::complex<double>>& dense_lapack() { return kTable<std::complex<double>>; }

const char* lapack_objection(const TensorImpl& matrices, int64_t least_float, int64_t least_double) {
  if (matrices.ndim < 2) return "not a matrix";
  const int64_t m = matrices.shape[matrices.ndim - 2], n = matrices.shape[matrices.ndim - 1];
  constexpr int64_t kLeastComplex = 24;  // our own loops for complex numbers are not blocked
  const int64_t least = matrices.dtype == DType::F32 ? least_float : least_double;
  if (std::min(m, n) < (is_complex(matrices.dtype) ? std::min(least, kLeastComplex) : least))
    return "the matrices are small";
  if (std::max(m, n) > INT32_MAX / 64) return "the matrices are larger than LAPACK counts";
  return lapack().why.empty() ? nullptr : lapack().why.c_str();
}

}  // namespace strata::cpu
