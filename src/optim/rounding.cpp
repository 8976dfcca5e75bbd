#include "optim/rounding.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <string>

#include "base/choice.h"
#include "kernels/cpu_rows.h"

namespace burnish::optim {

namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

BURNISH_SIMD void round_some(const uint32_t* from, uint16_t* to, uint32_t key, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    // The finalizer of MurmurHash3 of the element's number and the key; its upper half is added below the bits that stay.
    uint32_t x = static_cast<uint32_t>(i) * 0x9E3779B9u + key;
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    uint32_t below = (x ^ (x >> 16)) >> 16;
    uint32_t bits = from[i], finite = (bits & 0x7F800000u) != 0x7F800000u;
    to[i] = static_cast<uint16_t>((bits + (finite ? below : 0u)) >> 16);
  }
}

BURNISH_SIMD void split_some(const uint32_t* exact, uint16_t* rounded, int16_t* remainder, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    uint32_t upper = (exact[i] + 0x8000u) >> 16;
    rounded[i] = static_cast<uint16_t>(upper);
    remainder[i] = static_cast<int16_t>(exact[i] - (upper << 16));
  }
}

BURNISH_SIMD void join_some(const uint16_t* rounded, const int16_t* remainder, uint32_t* exact, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i)
    exact[i] = (static_cast<uint32_t>(rounded[i]) << 16) + static_cast<uint32_t>(static_cast<int32_t>(remainder[i]));
}

bool plain(std::initializer_list<at::Tensor> tensors) {
  for (const auto& t : tensors) {
    if (!t.is_cpu() || !t.is_contiguous()) return false;
  }
  return true;
}

template <class T>
T* data(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

}  // namespace

Rounding parse_rounding(std::string_view name) {
  static const std::array<std::string, 3> kNames{"nearest", "stochastic", "remainder"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Rounding>(i);
  }
  unknown_choice("optim", "trained_weights", name, kNames);
}

void round_stochastically(at::Tensor& from, const at::Tensor& to, uint64_t key) {
  const auto short_key = static_cast<uint32_t>(key ^ (key >> 32));
  if (plain({from, to})) {
    at::parallel_for(0, from.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
      round_some(data<const uint32_t>(from), data<uint16_t>(to), short_key, begin, end);
    });
    return;
  }
  // A clone of the device's own generator, so that no global state moves.
  at::Generator generator = at::globalContext().defaultGenerator(from.device()).clone();
  generator.set_current_seed(short_key);
  const at::Tensor below = at::randint(0, 1 << 16, from.sizes(), generator, from.options().dtype(at::kInt));
  // bf16 is the upper half of fp32: adding 16 random bits carries into it as often as the lower half is large.
  at::Tensor bits = from.view(at::kInt);
  bits.add_(below).bitwise_and_(static_cast<int64_t>(-65536));
  to.copy_(from);
}

void split_remainder(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& remainder) {
  if (plain({exact, rounded, remainder})) {
    at::parallel_for(0, exact.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
      split_some(data<const uint32_t>(exact), data<uint16_t>(rounded), data<int16_t>(remainder), begin, end);
    });
    return;
  }
  const at::Tensor bits = exact.view(at::kInt), upper = (bits + 0x8000).bitwise_right_shift_(16);
  remainder.copy_(bits - upper.bitwise_left_shift(16));
  rounded.copy_(upper.to(at::kShort).view(at::kBFloat16));
}

void join_remainder(const at::Tensor& rounded, const at::Tensor& remainder, const at::Tensor& exact) {
  if (plain({exact, rounded, remainder})) {
    at::parallel_for(0, exact.numel(), kElementsPerTask, [&](int64_t begin, int64_t end) {
      join_some(data<const uint16_t>(rounded), data<const int16_t>(remainder), data<uint32_t>(exact), begin, end);
    });
    return;
  }
  exact.copy_(rounded.to(at::kFloat).contiguous().view(at::kInt).add_(remainder).view(at::kFloat));
}

}  // namespace burnish::optim
