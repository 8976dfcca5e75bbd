#include "optim/rounding.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/where.h>

#include <bit>
#include <utility>

#include "base/choice.h"
#include "kernels/cpu_rows.h"
#include "kernels/place.h"
#include "kernels/rounding/gpu.h"

namespace burnish::optim {

namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

/// The finalizer of MurmurHash3 of an element's number and the key.
inline uint32_t random_bits(int64_t element, uint32_t key) {
  uint32_t x = static_cast<uint32_t>(element) * 0x9E3779B9u + key;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

uint32_t short_key(uint64_t key) { return static_cast<uint32_t>(key ^ (key >> 32)); }

/// A clone of the device's own generator, so that no global state moves; nothing where there are no numbers to draw.
std::optional<at::Generator> generator_of(const at::Tensor& like, uint64_t key) {
  if (like.is_meta()) return std::nullopt;
  at::Generator generator = at::globalContext().defaultGenerator(like.device()).clone();
  generator.set_current_seed(short_key(key));
  return generator;
}

BURNISH_SIMD void round_some(const uint32_t* from, uint16_t* to, uint32_t key, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    uint32_t below = random_bits(i, key) >> 16;  // added below the bits that stay
    uint32_t bits = from[i], finite = (bits & 0x7F800000u) != 0x7F800000u;
    to[i] = static_cast<uint16_t>((bits + (finite ? below : 0u)) >> 16);
  }
}

/// In steps of 2^(e-3), e the exponent and -6 at least: below that E4M3 is evenly spaced. The number of steps is the code's lower bits, and
/// carries into the exponent as it should.
BURNISH_SIMD void round_some_to_e4m3(const uint32_t* from, uint8_t* to, uint32_t key, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    uint32_t size_bits = from[i] & 0x7FFFFFFFu;
    auto size = std::bit_cast<float>(size_bits);
    int32_t field = static_cast<int32_t>(size_bits >> 23), e = (field > 121 ? field : 121) - 127;
    float steps = size * std::bit_cast<float>((130 - e) << 23);
    steps = size_bits <= 0x43E00000u ? steps : 0.0f;  // 448
    auto whole = static_cast<int32_t>(steps);
    float random = static_cast<float>(random_bits(i, key) >> 8) * 0x1p-24f;
    whole += random < steps - static_cast<float>(whole) ? 1 : 0;
    uint32_t code = size_bits <= 0x43E00000u ? static_cast<uint32_t>(((e + 6) << 3) + whole) : 0x7Fu;
    to[i] = static_cast<uint8_t>(code | ((from[i] >> 24) & 0x80u));
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
    if (!kernels::runs_on_cpu(t) || !t.is_contiguous()) return false;
  }
  return true;
}

/// Calls task(begin, end) for parts of as many elements as a tensor has, in parallel; not for one without numbers.
template <class Task>
void for_parts(const at::Tensor& t, const Task& task) {
  if (!t.is_meta()) at::parallel_for(0, t.numel(), kElementsPerTask, task);
}

template <class T>
T* data(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

}  // namespace

namespace {

const std::pair<std::string, Rounding> kRoundings[]{{"stochastic", Rounding::stochastic},
                                                    {"remainder", Rounding::remainder},
                                                    {"nearest", Rounding::nearest},
                                                    {"fp8", Rounding::stochastic}};

}  // namespace

std::vector<std::string> roundings() {
  std::vector<std::string> names;
  for (const auto& [name, rounding] : kRoundings) names.push_back(name);
  return names;
}

Rounding parse_rounding(std::string_view name) {
  for (const auto& [known, rounding] : kRoundings) {
    if (name == known) return rounding;
  }
  unknown_choice("optim", "trained_weights", name, roundings());
}

void round_stochastically(at::Tensor& from, const at::Tensor& to, uint64_t key) {
  if (plain({from, to})) {
    for_parts(from,
              [&](int64_t begin, int64_t end) { round_some(data<const uint32_t>(from), data<uint16_t>(to), short_key(key), begin, end); });
    return;
  }
  if (kernels::rounding_fits_gpu({from, to})) return kernels::round_stochastically_gpu(from, to, short_key(key));
  const at::Tensor below = at::randint(0, 1 << 16, from.sizes(), generator_of(from, key), from.options().dtype(at::kInt));
  // bf16 is the upper half of fp32: adding 16 random bits carries into it as often as the lower half is large.
  at::Tensor bits = from.view(at::kInt);
  bits.add_(below).bitwise_and_(static_cast<int64_t>(-65536));
  to.copy_(from);
}

void round_to_e4m3(const at::Tensor& from, const at::Tensor& codes, uint64_t key) {
  if (plain({from, codes})) {
    for_parts(from, [&](int64_t begin, int64_t end) {
      round_some_to_e4m3(data<const uint32_t>(from), data<uint8_t>(codes), short_key(key), begin, end);
    });
    return;
  }
  if (kernels::rounding_fits_gpu({from, codes})) return kernels::round_to_e4m3_gpu(from, codes, short_key(key));
  const at::Tensor size = from.abs().contiguous(), fits = size <= 448;
  const at::Tensor e = size.view(at::kInt).bitwise_right_shift(23).clamp_min_(121).sub_(127);
  const at::Tensor steps = size * e.neg().add_(130).bitwise_left_shift_(23).view(at::kFloat), whole = steps.floor();
  const at::Tensor up = at::rand(from.sizes(), generator_of(from, key), from.options()) < steps - whole;
  const at::Tensor code = e.add(6).mul_(8).add_(at::where(fits, whole, 0).to(at::kInt)).add_(up);
  codes.copy_(at::where(fits, code, 0x7F).bitwise_or_(from.signbit().to(at::kInt).mul_(0x80)));
}

void split_remainder(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& remainder) {
  if (plain({exact, rounded, remainder})) {
    for_parts(exact, [&](int64_t begin, int64_t end) {
      split_some(data<const uint32_t>(exact), data<uint16_t>(rounded), data<int16_t>(remainder), begin, end);
    });
    return;
  }
  if (kernels::rounding_fits_gpu({exact, rounded, remainder})) return kernels::split_remainder_gpu(exact, rounded, remainder);
  const at::Tensor bits = exact.view(at::kInt), upper = (bits + 0x8000).bitwise_right_shift_(16);
  remainder.copy_(bits - upper.bitwise_left_shift(16));
  rounded.copy_(upper.to(at::kShort).view(at::kBFloat16));
}

void join_remainder(const at::Tensor& rounded, const at::Tensor& remainder, const at::Tensor& exact) {
  if (plain({exact, rounded, remainder})) {
    for_parts(exact, [&](int64_t begin, int64_t end) {
      join_some(data<const uint16_t>(rounded), data<const int16_t>(remainder), data<uint32_t>(exact), begin, end);
    });
    return;
  }
  if (kernels::rounding_fits_gpu({exact, rounded, remainder})) return kernels::join_remainder_gpu(rounded, remainder, exact);
  exact.copy_(rounded.to(at::kFloat).contiguous().view(at::kInt).add_(remainder).view(at::kFloat));
}

}  // namespace burnish::optim
