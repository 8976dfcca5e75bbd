#include "kernels/block_codes/block_codes.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/simd.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int kLowerBits =
    17;  // of a float: what is left are its sign, its exponent and 6 bits of its fraction, which fit a processor's cache
constexpr int64_t kBlocksATask = 64;

/// Calls `of_block` with the first and the end of the numbers of each block.
template <typename OfBlock>
void for_blocks(int64_t count, int64_t block_size, const OfBlock& of_block) {
  at::parallel_for(0, (count + block_size - 1) / block_size, kBlocksATask, [&](int64_t begin, int64_t end) {
    for (auto block = begin; block < end; ++block) of_block(block, block * block_size, std::min((block + 1) * block_size, count));
  });
}

constexpr uint32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;

BURNISH_SIMD void look_up(const uint8_t* codes, const float* values, float scale, float* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = values[codes[i]] * scale;
}

/// The bits of the greatest magnitude, above those of infinity where there is something that is no number.
BURNISH_SIMD uint32_t greatest_magnitude(const float* x, int64_t n) {
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::bit_cast<uint32_t>(x[i]) & kMagnitude);
  return most;
}

/// Finds codes: the first one that a number's upper bits may mean, and one more for each border that it lies above.
BURNISH_SIMD void find_codes(const float* x, float factor, const int32_t* first, const float* borders, int64_t num_steps, int32_t* found,
                             uint8_t* codes, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) found[i] = first[std::bit_cast<uint32_t>(x[i] * factor) >> kLowerBits];
  for (int64_t step = 0; step < num_steps; ++step) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) found[i] += borders[found[i]] < x[i] * factor ? 1 : 0;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(found[i]);
}

}  // namespace

BlockCodes::BlockCodes(const std::vector<float>& values, int64_t block_size) : values_(values), block_size_(block_size) {
  for (size_t i = 0; i + 1 < values.size(); ++i) borders_.push_back((values[i] + values[i + 1]) / 2);
  auto code_of = [&](float number) { return std::ranges::lower_bound(borders_, number) - borders_.begin(); };
  for (uint32_t upper = 0; upper < 1u << (32 - kLowerBits); ++upper) {
    auto bits = upper << kLowerBits, other_end = bits | ((1u << kLowerBits) - 1);
    bool is_negative = bits >> 31 != 0, holds_infinity = (bits & kMagnitude) >= kInfinity;
    auto least = std::bit_cast<float>(is_negative ? other_end : bits), greatest = std::bit_cast<float>(is_negative ? bits : other_end);
    first_.push_back(static_cast<int32_t>(std::isnan(least) ? std::ssize(borders_) : code_of(least)));
    if (!holds_infinity) num_steps_ = std::max<int64_t>(num_steps_, code_of(greatest) - first_.back());
  }
  borders_.push_back(std::numeric_limits<float>::infinity());
}

at::Tensor BlockCodes::decode(const at::Tensor& codes, const at::Tensor& scales) const {
  auto exact = at::empty({codes.numel()}, scales.options());
  if (exact.is_meta()) return exact;
  const auto* from = codes.const_data_ptr<uint8_t>();
  const auto* scale = scales.const_data_ptr<float>();
  auto* to = exact.mutable_data_ptr<float>();
  for_blocks(codes.numel(), block_size_, [&](int64_t block, int64_t first, int64_t end) {
    look_up(from + first, values_.data(), scale[block], to + first, end - first);
  });
  return exact;
}

void BlockCodes::encode(const at::Tensor& exact, const at::Tensor& codes, const at::Tensor& scales) const {
  if (exact.is_meta()) return;
  constexpr float kLeast = 1e-38F;  // a block of zeros has the code of zero and the scale 0
  const auto* from = exact.const_data_ptr<float>();
  auto* to = codes.mutable_data_ptr<uint8_t>();
  auto* scale = scales.mutable_data_ptr<float>();
  for_blocks(exact.numel(), block_size_, [&](int64_t block, int64_t first, int64_t end) {
    thread_local std::vector<int32_t> found;
    found.resize(static_cast<size_t>(block_size_));
    auto most = greatest_magnitude(from + first, end - first);
    scale[block] = most > kInfinity ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(most);
    const float factor = 1.0F / std::max(scale[block], kLeast);
    find_codes(from + first, factor, first_.data(), borders_.data(), num_steps_, found.data(), to + first, end - first);
  });
}

}  // namespace burnish::kernels
