// The mathematical functions of CUDA in float and double: argument reductions, tables, calls, local arrays.
template <class T> __device__ T function(int which, T x, T y) {
  switch (which) {
    case 0: return exp(x);
    case 1: return log(x);
    case 2: return pow(x, y);
    case 3: return sin(x * T(1e6));
    case 4: return cos(x * T(1e6));
    case 5: return tan(x);
    case 6: return lgamma(x);
    case 7: return tgamma(x);
    case 8: return erf(x);
    case 9: return erfc(x);
    case 10: return tanh(x);
    case 11: return expm1(x);
    case 12: return log1p(x);
    case 13: return cbrt(x);
    case 14: return fmod(x * T(100), y);
    case 15: return atan2(y, x);
    case 16: return asinh(x);
    case 17: return erfinv(y / T(8));
    case 18: return exp2(x);
    case 19: return log10(x);
    case 20: return sqrt(x);
    case 21: return rsqrt(x);
    case 22: return x / y;
    case 23: return rint(x * T(10));
    case 24: return floor(-x * T(10));
    case 25: return hypot(x, y);
    case 26: return acos(y / T(8));
    case 27: return sinh(x);
    case 28: return cosh(x);
    case 29: return normcdf(y - x);
    case 30: return remainder(x * T(100), y);
    default: return ldexp(x, 5) + T(ilogb(y));
  }
}

extern "C" __global__ void math_f32(const float* x, const float* y, float* out, int n, int functions) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int f = 0; f < functions; ++f) out[f * n + i] = function(f, x[i], y[i]);
}

extern "C" __global__ void math_f64(const double* x, const double* y, double* out, int n, int functions) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int f = 0; f < functions; ++f) out[f * n + i] = function(f, x[i], y[i]);
}

// The quick forms: approximate instructions with and without flushing.
extern "C" __global__ void math_fast(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  out[i] = __expf(v);
  out[n + i] = __logf(v);
  out[2 * n + i] = __sinf(v);
  out[3 * n + i] = __cosf(v);
  out[4 * n + i] = __fdividef(1.0f, v);
  out[5 * n + i] = __frsqrt_rn(v);
  out[6 * n + i] = __fmaf_rz(v, v, 0.1f);
  out[7 * n + i] = __fadd_ru(v, 1e-9f);
  out[8 * n + i] = __fdiv_rd(1.0f, v);
  out[9 * n + i] = __fsqrt_rz(v);
  out[10 * n + i] = __saturatef(v - 1.0f);
  out[11 * n + i] = exp10f(v);
}
