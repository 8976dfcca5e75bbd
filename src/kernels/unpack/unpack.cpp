#include "kernels/unpack/unpack.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <array>

namespace burnish::kernels {

const std::array<float, 16>& nf4_values() {
  static const std::array<float, 16> values{-1.0f,
                                            -0.6961928009986877f,
                                            -0.5250730514526367f,
                                            -0.39491748809814453f,
                                            -0.28444138169288635f,
                                            -0.18477343022823334f,
                                            -0.09105003625154495f,
                                            0.0f,
                                            0.07958029955625534f,
                                            0.16093020141124725f,
                                            0.24611230194568634f,
                                            0.33791524171829224f,
                                            0.44070982933044434f,
                                            0.5626170039176941f,
                                            0.7229568362236023f,
                                            1.0f};
  return values;
}

namespace {

std::array<float, 256> table_of(CodeKind kind) {
  std::array<float, 256> table{};
  for (int code = 0; code < 256; ++code) {
    auto byte = static_cast<uint8_t>(code);
    switch (kind) {
      case CodeKind::e4m3: table[byte] = c10::Float8_e4m3fn(byte, c10::Float8_e4m3fn::from_bits()); break;
      case CodeKind::e5m2: table[byte] = c10::Float8_e5m2(byte, c10::Float8_e5m2::from_bits()); break;
      case CodeKind::int8: table[byte] = static_cast<float>(static_cast<int8_t>(byte)); break;
      case CodeKind::nf4: table[byte] = nf4_values()[byte % 16]; break;
    }
  }
  return table;
}

const std::array<float, 256>& table(CodeKind kind) {
  static const std::array<std::array<float, 256>, 4> tables{table_of(CodeKind::e4m3), table_of(CodeKind::e5m2), table_of(CodeKind::int8),
                                                            table_of(CodeKind::nf4)};
  return tables[static_cast<size_t>(kind)];
}

/// One table look-up a value: on one core about as fast as the memory it writes to.
template <class Out>
void unpack_row(const uint8_t* codes, bool halves, const float* values, const float* scales, int64_t group, int64_t in, Out* out) {
  for (int64_t first = 0; first < in; first += group, ++scales) {
    const float scale = *scales;
    const int64_t last = std::min(first + group, in);
    if (!halves) {
      for (int64_t k = first; k < last; ++k) out[k] = static_cast<Out>(values[codes[k]] * scale);
    } else {
      for (int64_t k = first; k < last; ++k) out[k] = static_cast<Out>(values[k % 2 ? codes[k / 2] & 15 : codes[k / 2] >> 4] * scale);
    }
  }
}

template <class Out>
void unpack_rows(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, at::Tensor& out) {
  const auto* code = codes.const_data_ptr<uint8_t>();
  const auto* scale = scales.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<Out>();
  const int64_t bytes = codes.size(1), groups = scales.size(1), in = out.size(1);
  const auto* values = table(kind).data();
  at::parallel_for(0, codes.size(0), std::max<int64_t>(1, 32768 / std::max<int64_t>(1, in)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      unpack_row(code + row * bytes, kind == CodeKind::nf4, values, scale + row * groups, group, in, to + row * in);
  });
}

/// Plain ATen, for devices without a tuned version.
at::Tensor unpack_anywhere(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in,
                           c10::ScalarType dtype) {
  at::Tensor values;
  switch (kind) {
    case CodeKind::e4m3: values = codes.view(at::kFloat8_e4m3fn).to(at::kFloat); break;
    case CodeKind::e5m2: values = codes.view(at::kFloat8_e5m2).to(at::kFloat); break;
    case CodeKind::int8: values = codes.view(at::kChar).to(at::kFloat); break;
    case CodeKind::nf4: {
      const auto& list = nf4_values();
      auto values_16 = at::tensor(at::ArrayRef<float>(list.data(), list.size()), at::kFloat).to(codes.device());
      auto pairs = at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, -1).flatten(1).narrow(1, 0, in);
      values = at::embedding(values_16.unsqueeze(1), pairs.to(at::kInt)).squeeze(-1);
    }
  }
  if (scales.size(1) == 1) return values.mul_(scales).to(dtype);
  return values.mul_(scales.repeat_interleave(group, 1).narrow(1, 0, in)).to(dtype);
}

}  // namespace

at::Tensor unpack(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype) {
  if (!codes.is_cpu()) return unpack_anywhere(codes, kind, scales, group, in, dtype);
  auto out = at::empty({codes.size(0), in}, scales.options().dtype(dtype));
  auto plain_codes = codes.contiguous(), plain_scales = scales.contiguous();
  switch (dtype) {
    case at::kFloat: unpack_rows<float>(plain_codes, kind, plain_scales, group, out); break;
    case at::kDouble: unpack_rows<double>(plain_codes, kind, plain_scales, group, out); break;
    case at::kBFloat16: unpack_rows<c10::BFloat16>(plain_codes, kind, plain_scales, group, out); break;
    case at::kHalf: unpack_rows<c10::Half>(plain_codes, kind, plain_scales, group, out); break;
    default: throw std::logic_error("unpack into a dtype that is not a floating point one");
  }
  return out;
}

}  // namespace burnish::kernels
