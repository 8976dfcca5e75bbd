#include "kernels/unpack_blocks/unpack_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <stdexcept>

// N counts blocks. A block's sub-blocks have scales of their own; in files with K in their names, those are codes too.
namespace burnish::kernels {

namespace {

at::Tensor bytes_at(const at::Tensor& blocks, int64_t first, int64_t count) { return blocks.narrow(1, first, count); }

/// A number of 16 bits, [N, 1] fp32.
at::Tensor half_at(const at::Tensor& blocks, int64_t first) {
  return bytes_at(blocks, first, 2).contiguous().view(at::kHalf).to(at::kFloat);
}

at::Tensor low(const at::Tensor& bytes) { return bytes.bitwise_and(15); }
at::Tensor high(const at::Tensor& bytes) { return bytes.bitwise_right_shift(4); }

/// 0, step, 2 · step ..., to shift bytes by.
at::Tensor shifts(const at::Tensor& like, int64_t count, int64_t step) { return at::arange(0, count * step, step, like.options()); }

/// Bits of bytes [N, B], the lowest first -> [N, 8 B].
at::Tensor bits(const at::Tensor& bytes) { return bytes.unsqueeze(2).bitwise_right_shift(shifts(bytes, 8, 1)).bitwise_and(1).flatten(1); }

/// Codes of sub-blocks times their scales, less their minima where there are some: [N, S, n], [N, S] -> [N, S n].
at::Tensor scaled(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& minima = {}) {
  auto values = codes.to(at::kFloat).mul(scales.unsqueeze(2));
  return (minima.defined() ? values.sub_(minima.unsqueeze(2)) : values).flatten(1);
}

/// 16 bytes -> 32 codes: low halves, then high ones.
at::Tensor halves(const at::Tensor& bytes) { return at::cat({low(bytes), high(bytes)}, 1); }

at::Tensor signed_codes(const at::Tensor& codes, int64_t zero) { return codes.to(at::kChar).sub_(zero); }

at::Tensor q4_0(const at::Tensor& b) { return signed_codes(halves(bytes_at(b, 2, 16)), 8).to(at::kFloat).mul_(half_at(b, 0)); }

at::Tensor q4_1(const at::Tensor& b) { return halves(bytes_at(b, 4, 16)).to(at::kFloat).mul_(half_at(b, 0)).add_(half_at(b, 2)); }

at::Tensor with_fifth_bit(const at::Tensor& fifth, const at::Tensor& four) {
  return halves(four).bitwise_or(bits(fifth).bitwise_left_shift(4));
}

at::Tensor q5_0(const at::Tensor& b) {
  return signed_codes(with_fifth_bit(bytes_at(b, 2, 4), bytes_at(b, 6, 16)), 16).to(at::kFloat).mul_(half_at(b, 0));
}

at::Tensor q5_1(const at::Tensor& b) {
  return with_fifth_bit(bytes_at(b, 4, 4), bytes_at(b, 8, 16)).to(at::kFloat).mul_(half_at(b, 0)).add_(half_at(b, 2));
}

at::Tensor q8_0(const at::Tensor& b) { return bytes_at(b, 2, 32).view(at::kChar).to(at::kFloat).mul_(half_at(b, 0)); }

/// Two bits of each byte at a time: [N, H, 32] -> [N, H, 4, 32].
at::Tensor pairs_of_bits(const at::Tensor& bytes) {
  return bytes.unsqueeze(2).bitwise_right_shift(shifts(bytes, 4, 2).view({1, 1, 4, 1})).bitwise_and(3);
}

at::Tensor q2_k(const at::Tensor& b) {
  auto of_16 = bytes_at(b, 0, 16);
  auto codes = pairs_of_bits(bytes_at(b, 16, 64).unflatten(1, {2, 32})).reshape({-1, 16, 16});
  return scaled(codes, half_at(b, 80) * low(of_16).to(at::kFloat), half_at(b, 82) * high(of_16).to(at::kFloat));
}

at::Tensor q3_k(const at::Tensor& b) {
  auto packed = bytes_at(b, 96, 12);
  auto low_bits = halves(bytes_at(packed, 0, 8));
  auto high_bits = pairs_of_bits(bytes_at(packed, 8, 4).unsqueeze(1)).flatten(1);
  auto scales = half_at(b, 108) * signed_codes(low_bits.bitwise_or(high_bits.bitwise_left_shift(4)), 32).to(at::kFloat);
  auto third = bytes_at(b, 0, 32).unsqueeze(1);
  third = third.bitwise_right_shift(shifts(third, 8, 1).view({1, 8, 1})).bitwise_and(1);  // [N, 8, 32]
  auto two = pairs_of_bits(bytes_at(b, 32, 64).unflatten(1, {2, 32})).flatten(1, 2);
  auto codes = signed_codes(two.bitwise_or(third.bitwise_left_shift(2)), 4);
  return scaled(codes.reshape({-1, 16, 16}), scales);
}

/// The six bits that scales and minima of eight sub-blocks have, in 12 bytes.
struct SixBits {
  at::Tensor scales, minima;  // [N, 8] fp32
};
SixBits six_bits(const at::Tensor& packed) {
  auto a = bytes_at(packed, 0, 4), m = bytes_at(packed, 4, 4), rest = bytes_at(packed, 8, 4);
  auto joined = [](const at::Tensor& first, const at::Tensor& four) {
    auto upper = first.bitwise_right_shift(6).bitwise_left_shift(4);
    return at::cat({first.bitwise_and(63), four.bitwise_or(upper)}, 1).to(at::kFloat);
  };
  return {joined(a, low(rest)), joined(m, high(rest))};
}

/// [N, 128] -> [N, 8, 32]: 32 bytes hold two sub-blocks, the first in their low halves.
at::Tensor sub_blocks(const at::Tensor& bytes) {
  auto quarters = bytes.unflatten(1, {4, 32});
  return at::stack({low(quarters), high(quarters)}, 2).flatten(1, 2);
}

at::Tensor q4_k(const at::Tensor& b) {
  auto six = six_bits(bytes_at(b, 4, 12));
  return scaled(sub_blocks(bytes_at(b, 16, 128)), half_at(b, 0) * six.scales, half_at(b, 2) * six.minima);
}

at::Tensor q5_k(const at::Tensor& b) {
  auto six = six_bits(bytes_at(b, 4, 12));
  auto fifth = bytes_at(b, 16, 32).unsqueeze(1);
  fifth = fifth.bitwise_right_shift(shifts(fifth, 8, 1).view({1, 8, 1})).bitwise_and(1);
  auto codes = sub_blocks(bytes_at(b, 48, 128)).bitwise_or(fifth.bitwise_left_shift(4));
  return scaled(codes, half_at(b, 0) * six.scales, half_at(b, 2) * six.minima);
}

at::Tensor q6_k(const at::Tensor& b) {
  auto four = bytes_at(b, 0, 128).reshape({-1, 2, 2, 32});  // [N, half, of 64, 32]
  auto low_bits = at::stack({low(four), high(four)}, 2).flatten(2, 3);
  auto high_bits = pairs_of_bits(bytes_at(b, 128, 64).unflatten(1, {2, 32}));
  auto codes = signed_codes(low_bits.bitwise_or(high_bits.bitwise_left_shift(4)), 32);
  auto scales = half_at(b, 208) * bytes_at(b, 192, 16).view(at::kChar).to(at::kFloat);
  return scaled(codes.reshape({-1, 16, 16}), scales);
}

/// ggml-common.h, kvalues_iq4nl.
at::Tensor iq4_values(const at::Tensor& codes) {
  auto values = at::tensor({-127.f, -104.f, -83.f, -65.f, -49.f, -35.f, -22.f, -10.f, 1.f, 13.f, 25.f, 38.f, 53.f, 69.f, 89.f, 113.f});
  return at::index_select(values.to(codes.device()), 0, codes.reshape({-1}).to(at::kInt)).view(codes.sizes());
}

at::Tensor iq4_nl(const at::Tensor& b) { return iq4_values(halves(bytes_at(b, 2, 16))).mul_(half_at(b, 0)); }

at::Tensor iq4_xs(const at::Tensor& b) {
  auto high_bits = pairs_of_bits(bytes_at(b, 2, 2).unsqueeze(2)).flatten(1);  // [N, 8]
  auto low_bytes = bytes_at(b, 4, 4);
  auto low_bits = at::stack({low(low_bytes), high(low_bytes)}, 2).flatten(1);
  auto scales = half_at(b, 0) * signed_codes(low_bits.bitwise_or(high_bits.bitwise_left_shift(4)), 32).to(at::kFloat);
  auto bytes = bytes_at(b, 8, 128).unflatten(1, {8, 16});
  return scaled(iq4_values(at::cat({low(bytes), high(bytes)}, 2)), scales);
}

at::Tensor numbers_of(const at::Tensor& blocks, CodeKind kind) {
  switch (kind) {
    case CodeKind::q4_0: return q4_0(blocks);
    case CodeKind::q4_1: return q4_1(blocks);
    case CodeKind::q5_0: return q5_0(blocks);
    case CodeKind::q5_1: return q5_1(blocks);
    case CodeKind::q8_0: return q8_0(blocks);
    case CodeKind::q2_k: return q2_k(blocks);
    case CodeKind::q3_k: return q3_k(blocks);
    case CodeKind::q4_k: return q4_k(blocks);
    case CodeKind::q5_k: return q5_k(blocks);
    case CodeKind::q6_k: return q6_k(blocks);
    case CodeKind::iq4_nl: return iq4_nl(blocks);
    case CodeKind::iq4_xs: return iq4_xs(blocks);
    default: throw std::logic_error("these codes have no blocks");
  }
}

}  // namespace

at::Tensor unpack_blocks(const at::Tensor& codes, CodeKind kind, int64_t in) {
  return numbers_of(codes.reshape({-1, code_block(kind).bytes}), kind).view({codes.size(0), in});
}

}  // namespace burnish::kernels
