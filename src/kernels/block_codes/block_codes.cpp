#include "kernels/block_codes/block_codes.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

}  // namespace

BlockCodes::BlockCodes(const std::vector<float>& values, int64_t block_size) : values_(values), block_size_(block_size) {
  for (size_t i = 0; i + 1 < values.size(); ++i) borders_.push_back((values[i] + values[i + 1]) / 2);
  for (uint32_t upper = 0; upper < 1u << (32 - kLowerBits); ++upper) {
    auto bits = upper << kLowerBits;
    bool is_negative = bits >> 31 != 0;
    auto least = std::bit_cast<float>(is_negative ? bits | ((1u << kLowerBits) - 1) : bits);
    bool is_number = !std::isnan(least);
    auto code = is_number ? std::ranges::lower_bound(borders_, least) - borders_.begin() : std::ssize(borders_);
    first_.push_back(static_cast<uint8_t>(code));
  }
}

uint8_t BlockCodes::code_of(float fraction) const {
  size_t code = first_[std::bit_cast<uint32_t>(fraction) >> kLowerBits];
  while (code < borders_.size() && !(borders_[code] >= fraction)) ++code;
  return static_cast<uint8_t>(code);
}

at::Tensor BlockCodes::decode(const at::Tensor& codes, const at::Tensor& scales) const {
  auto exact = at::empty({codes.numel()}, scales.options());
  if (exact.is_meta()) return exact;
  const auto* from = codes.const_data_ptr<uint8_t>();
  const auto* scale = scales.const_data_ptr<float>();
  auto* to = exact.mutable_data_ptr<float>();
  for_blocks(codes.numel(), block_size_, [&](int64_t block, int64_t first, int64_t end) {
    for (auto i = first; i < end; ++i) to[i] = values_[from[i]] * scale[block];
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
    float most = 0;
    bool are_numbers = true;
    for (auto i = first; i < end; ++i) {
      auto magnitude = std::abs(from[i]);
      most = std::max(most, magnitude);  // which passes over what is no number
      are_numbers &= magnitude == magnitude;
    }
    if (!are_numbers) most = std::numeric_limits<float>::quiet_NaN();
    scale[block] = most;
    const float factor = 1.0F / std::max(most, kLeast);
    for (auto i = first; i < end; ++i) to[i] = code_of(from[i] * factor);
  });
}

}  // namespace burnish::kernels
