// Integers: 64-bit division, products, fields, permutations, dot products, conversions between all sizes.
extern "C" __global__ void integer_64(const long long* a, const long long* b, unsigned long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const long long x = a[i], y = b[i];
  const auto ux = (unsigned long long)x, uy = (unsigned long long)y;
  unsigned long long* o = out + (long long)i * 16;
  o[0] = x / y;
  o[1] = x % y;
  o[2] = ux / uy;
  o[3] = ux % uy;
  o[4] = __mul64hi(x, y);
  o[5] = __umul64hi(ux, uy);
  o[6] = __popcll(ux);
  o[7] = __clzll(x);
  o[8] = __brevll(ux);
  o[9] = __ffsll(x);
  o[10] = min(x, y);
  o[11] = max(ux, uy);
  o[12] = x >> (uy & 63);
  o[13] = ux << (uy & 63);
  o[14] = x / 7 + x % 1000003;  // by multiplication
  o[15] = llabs(x) ^ (x < y ? 1 : 0);
}

extern "C" __global__ void integer_32(const int* a, const int* b, unsigned* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int x = a[i], y = b[i];
  const auto ux = (unsigned)x, uy = (unsigned)y;
  unsigned* o = out + (long long)i * 20;
  o[0] = x / y;
  o[1] = x % y;
  o[2] = ux / uy;
  o[3] = __mulhi(x, y);
  o[4] = __umulhi(ux, uy);
  o[5] = __byte_perm(ux, uy, 0x3715);
  o[6] = __funnelshift_l(ux, uy, 11);
  o[7] = __funnelshift_r(ux, uy, x & 31);
  o[8] = __dp4a(x, y, 5);
  o[9] = __sad(x, y, 3u);
  o[10] = (ux >> 5) & 0x3ff;
  o[11] = (unsigned)(x << 9 >> 20);
  o[12] = __brev(ux);
  o[13] = __clz(x) + __ffs(y) + __popc(uy);
  o[14] = (unsigned)(short)x * (unsigned)(unsigned char)y;
  o[15] = (ux & uy) | (~ux & 0x0f0f0f0fu) ^ uy;
  o[16] = __hadd(x, y);
  o[17] = (unsigned)((signed char)x / 3);
  o[18] = (unsigned)(unsigned short)(ux + uy);
  o[19] = __vadd2(ux, uy) ^ __vmaxs2(ux, uy);
}

// Every conversion between float, double and the integers, as C++ has it: toward zero, and with a chosen rounding.
extern "C" __global__ void integer_cast(const double* a, unsigned long long* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double x = a[i];
  const auto f = (float)x;
  unsigned long long* o = out + (long long)i * 14;
  o[0] = (unsigned long long)(long long)x;
  o[1] = (unsigned long long)(long long)(int)f;
  o[2] = (unsigned long long)(unsigned)f;
  o[3] = (unsigned long long)x;
  o[4] = __double2int_rn(x);
  o[5] = __double2ll_rd(x);
  o[6] = __float2int_ru(f);
  o[7] = __double_as_longlong((double)(long long)(x * 1e3));
  o[8] = __float_as_uint((float)(long long)(x * 1e6));
  o[9] = __float_as_uint(__ll2float_rz((long long)(x * 1e9)));
  o[10] = __float_as_uint(__double2float_ru(x));
  o[11] = (unsigned long long)(short)(int)f;
  o[12] = (unsigned long long)(unsigned char)(int)f;
  o[13] = __float_as_uint(truncf(f) + roundf(f));
}
