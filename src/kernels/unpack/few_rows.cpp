#include "kernels/unpack/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "base/simd.h"
#include "kernels/place.h"
#include "kernels/unpack/unpack.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kPart = 1024;  // values of a row of the weight that are unpacked at a time

/// Sixteen numbers, in as many registers as a processor needs for them.
using Lanes = float __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int64_t kLanes = 16;

/// The sum of products, in 64 sums side by side, so that a product waits for none before it.
BURNISH_SIMD float dot(const float* a, const float* b, int64_t n) {
  Lanes sum0{}, sum1{}, sum2{}, sum3{};  // names, since an array of them would lie in memory
  int64_t k = 0;
  for (; k + 4 * kLanes <= n; k += 4 * kLanes) {
    const auto *left = reinterpret_cast<const Lanes*>(a + k), *right = reinterpret_cast<const Lanes*>(b + k);
    sum0 += left[0] * right[0];
    sum1 += left[1] * right[1];
    sum2 += left[2] * right[2];
    sum3 += left[3] * right[3];
  }
  float rest = 0;
  for (; k < n; ++k) rest += a[k] * b[k];
  const Lanes all = (sum0 + sum1) + (sum2 + sum3);
  for (int64_t lane = 0; lane < kLanes; ++lane) rest += all[lane];
  return rest;
}

}  // namespace

bool multiplies_few(const at::Tensor& x, const at::Tensor& codes, CodeKind kind) {
  const bool is_known = x.scalar_type() != at::kDouble && !code_block(kind).holds_scales;
  return is_known && !codes.is_meta() && runs_on_cpu(codes) && x.numel() > 0 && x.numel() <= kFewRows * x.size(-1);
}

at::Tensor multiply_few(const at::Tensor& x_MI, const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group) {
  const auto x = x_MI.contiguous(), plain_codes = codes.contiguous(), plain_scales = scales.contiguous();
  const int64_t num_rows = x.size(0), in = x.size(1), out = codes.size(0), bytes = codes.size(1), groups = scales.size(1);
  auto y_MN = at::empty({num_rows, out}, x.options());
  const auto* from = x.const_data_ptr<float>();
  auto* to = y_MN.mutable_data_ptr<float>();
  constexpr int64_t kTask = 32768;  // values
  at::parallel_for(0, out, std::max<int64_t>(1, kTask / in), [&](int64_t begin, int64_t end) {
    std::array<float, kPart> values;
    for (int64_t o = begin; o < end; ++o) {
      const CodedRow row{kind, plain_codes.const_data_ptr<uint8_t>() + o * bytes, plain_scales.const_data_ptr<float>() + o * groups, group};
      std::array<float, kFewRows> sums{};
      for (int64_t first = 0; first < in; first += kPart) {
        const auto n = std::min(kPart, in - first);
        unpack_part(row, first, n, values.data());
        for (int64_t m = 0; m < num_rows; ++m) sums[static_cast<size_t>(m)] += dot(values.data(), from + m * in + first, n);
      }
      for (int64_t m = 0; m < num_rows; ++m) to[m * out + o] = sums[static_cast<size_t>(m)];
    }
  });
  return y_MN;
}

}  // namespace burnish::kernels
