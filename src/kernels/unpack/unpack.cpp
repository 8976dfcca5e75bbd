#include "kernels/unpack/unpack.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu_rows.h"
#include "kernels/place.h"
#include "kernels/rotate/rotate.h"
#include "kernels/unpack/gpu.h"
#include "kernels/unpack_blocks/unpack_blocks.h"

// Whether a function may be written once for each instruction set, as BURNISH_SIMD compiles one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BURNISH_HAS_VERSIONS 1
#include <immintrin.h>
#else
#define BURNISH_HAS_VERSIONS 0
#endif

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

const std::array<float, 16>& values_of(CodeKind kind) {
  // bitsandbytes' functional.py, get_4bit_type("fp4"): these over 12.
  static const std::array<float, 16> fp4{0.0f,  0.0625f / 12,  8.0f / 12,  12.0f / 12,  4.0f / 12,  6.0f / 12,  2.0f / 12,  3.0f / 12,
                                         -0.0f, -0.0625f / 12, -8.0f / 12, -12.0f / 12, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12};
  static const std::array<float, 16> e2m1{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  static const std::array<float, 16> int4{0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  switch (kind) {
    case CodeKind::nf4: return nf4_values();
    case CodeKind::fp4: return fp4;
    case CodeKind::int4_convrot: return int4;
    default: return e2m1;
  }
}

namespace {

constexpr int64_t kBuffer = 1024;                   // values of a row at a time
constexpr int64_t kWideNumbers = int64_t{1} << 22;  // that are fp32 at once on their way to a narrower type

/// A number of `mantissa` bits below a sign and an exponent of the given bias, times a scale. Widened with its sign and shifted to an fp32
/// number's place a code is its number but for the difference of the biases, which a product with a power of two makes up for, also below
/// the smallest exponent. Bits are chosen by a mask, since compilers do not vectorise a branch. `nan` is the first magnitude that stands
/// for NaN (or infinity).
template <int mantissa, int bias, uint32_t nan>
inline float decoded(int8_t code, float scale) {
  constexpr int kShift = 23 - mantissa;
  constexpr uint32_t kMagnitude = 0x7Fu << kShift, kPowerBits = static_cast<uint32_t>(127 + 127 - bias) << 23;
  const uint32_t shifted = static_cast<uint32_t>(static_cast<int32_t>(code)) << kShift;
  const uint32_t is_nan = 0u - static_cast<uint32_t>((shifted & kMagnitude) >= nan << kShift);
  const uint32_t bits = (shifted & (kMagnitude | 0x80000000u)) | (0x7FC00000u & is_nan);
  float value, power;
  __builtin_memcpy(&value, &bits, sizeof(value));
  __builtin_memcpy(&power, &kPowerBits, sizeof(power));
  return value * power * scale;
}

void plain_e4m3_to_fp32(const int8_t* codes, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) out[k] = decoded<3, 7, 0x7F>(codes[k], scale);
}

#if BURNISH_HAS_VERSIONS
/// By way of fp16, whose place a code is shifted to in half as many registers, and of which processors with AVX2 make fp32.
__attribute__((target("arch=x86-64-v3"))) void e4m3_to_fp32(const int8_t* codes, float scale, float* out, int64_t n) {
  const auto factor = _mm256_set1_ps(scale * 256);  // between the biases 15 and 7
  const auto bits = _mm256_set1_epi16(static_cast<int16_t>(0xBF80)), nan = _mm256_set1_epi16(0x3F80), sign = _mm256_set1_epi16(0x7FFF);
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    const auto wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + k)));
    const auto half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), bits);
    const auto is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, sign), nan);
    const auto number = _mm256_or_si256(half, _mm256_and_si256(is_nan, sign));
    _mm256_storeu_ps(out + k, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(number)), factor));
    _mm256_storeu_ps(out + k + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(number, 1)), factor));
  }
  plain_e4m3_to_fp32(codes + k, scale, out + k, n - k);
}

__attribute__((target("default")))
#endif
void e4m3_to_fp32(const int8_t* codes, float scale, float* out, int64_t n) {
  plain_e4m3_to_fp32(codes, scale, out, n);
}

BURNISH_SIMD void e5m2_to_fp32(const int8_t* codes, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) out[k] = decoded<2, 15, 0x7C>(codes[k], scale);
}

BURNISH_SIMD void int8_to_fp32(const int8_t* codes, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) out[k] = static_cast<float>(codes[k]) * scale;
}

/// The two values of each byte.
using Pairs = std::array<std::array<float, 2>, 256>;
Pairs pairs_of(CodeKind kind) {
  const auto& values = values_of(kind);
  Pairs pairs;
  for (size_t byte = 0; byte < pairs.size(); ++byte) pairs[byte] = {values[byte >> 4], values[byte & 15]};
  return pairs;
}
const Pairs& pairs_by_byte(CodeKind kind) {
  static const Pairs nf4 = pairs_of(CodeKind::nf4), fp4 = pairs_of(CodeKind::fp4), int4 = pairs_of(CodeKind::int4_convrot),
                     e2m1 = pairs_of(CodeKind::e2m1);
  switch (kind) {
    case CodeKind::nf4: return nf4;
    case CodeKind::fp4: return fp4;
    case CodeKind::int4_convrot: return int4;
    default: return e2m1;
  }
}

/// Two values a look into a table; a byte that is half meant has one.
void look_up(CodeKind kind, const uint8_t* codes, float scale, float* out, int64_t n) {
  const auto& pairs = pairs_by_byte(kind);
  for (int64_t k = 0; k + 1 < n; k += 2) {
    const auto& pair = pairs[codes[k / 2]];
    out[k] = pair[0] * scale;
    out[k + 1] = pair[1] * scale;
  }
  if (n % 2 == 1) out[n - 1] = pairs[codes[n / 2]][0] * scale;
}

#if BURNISH_HAS_VERSIONS

// A table of sixteen numbers is one register of AVX-512, and two of AVX2. Each byte is put into two lanes, and shifted in the first of
// them: a look takes the four lowest bits of a lane.

using Floats16 = float __attribute__((vector_size(64)));
using Lanes16 = uint32_t __attribute__((vector_size(64)));

__attribute__((target("arch=x86-64-v4"))) void four_bits_to_fp32(CodeKind kind, const uint8_t* codes, float scale, float* out, int64_t n) {
  Floats16 values;
  std::memcpy(&values, values_of(kind).data(), sizeof(values));
  values *= scale;
  const Lanes16 places{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}, shifts{4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16) {
    int64_t bytes;
    std::memcpy(&bytes, codes + k / 2, sizeof(bytes));
    const auto numbers = (Lanes16)_mm512_shuffle_epi8(_mm512_set1_epi64(bytes), (__m512i)places) >> shifts;
    const auto found = __builtin_shuffle(values, numbers);
    std::memcpy(out + k, &found, sizeof(found));
  }
  if (k < n) look_up(kind, codes + k / 2, scale, out + k, n - k);
}

__attribute__((target("arch=x86-64-v3"))) void four_bits_to_fp32(CodeKind kind, const uint8_t* codes, float scale, float* out, int64_t n) {
  const auto* values = values_of(kind).data();
  const auto factor = _mm256_set1_ps(scale);
  const auto low = _mm256_mul_ps(_mm256_loadu_ps(values), factor), high = _mm256_mul_ps(_mm256_loadu_ps(values + 8), factor);
  const auto places = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0), shifts = _mm256_set1_epi64x(4);
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    int32_t bytes;
    std::memcpy(&bytes, codes + k / 2, sizeof(bytes));
    const auto numbers = _mm256_srlv_epi32(_mm256_shuffle_epi8(_mm256_set1_epi32(bytes), places), shifts);
    const auto is_high = _mm256_castsi256_ps(_mm256_slli_epi32(numbers, 28));  // by the sign bit
    _mm256_storeu_ps(out + k, _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, numbers), _mm256_permutevar8x32_ps(high, numbers), is_high));
  }
  if (k < n) look_up(kind, codes + k / 2, scale, out + k, n - k);
}

__attribute__((target("default")))
#endif
void four_bits_to_fp32(CodeKind kind, const uint8_t* codes, float scale, float* out, int64_t n) {
  look_up(kind, codes, scale, out, n);
}

}  // namespace

namespace {

/// Codes that share a scale; of four bits the first lies in the high half of a byte.
void codes_to_fp32(CodeKind kind, const uint8_t* codes, float scale, float* out, int64_t n) {
  const auto* bytes = reinterpret_cast<const int8_t*>(codes);
  switch (kind) {
    case CodeKind::mxfp8:
    case CodeKind::e4m3: return e4m3_to_fp32(bytes, scale, out, n);
    case CodeKind::e5m2: return e5m2_to_fp32(bytes, scale, out, n);
    case CodeKind::int8_convrot:
    case CodeKind::int8: return int8_to_fp32(bytes, scale, out, n);
    default: return four_bits_to_fp32(kind, codes, scale, out, n);
  }
}

}  // namespace

void unpack_part(const CodedRow& row, int64_t first, int64_t n, float* values) {
  const auto a_byte = code_block(row.kind).numbers;
  for (int64_t done = 0; done < n;) {
    const auto at = first + done, g = at / row.group, count = std::min(n, (g + 1) * row.group - first) - done;
    codes_to_fp32(row.kind, row.codes + at / a_byte, row.scales[g], values + done, count);
    done += count;
  }
}

namespace {

/// Values of a row that lie in `stretch`; numbers that are rotated together lie within a buffer.
template <class Out>
void unpack_stretch(const CodedRow& row, Stretch stretch, int64_t rotation, Out* to) {
  std::array<float, kBuffer> buffer;
  for (int64_t done = 0; done < stretch.count; done += kBuffer) {
    const auto n = std::min(kBuffer, stretch.count - done);
    float* values = target(to + done, buffer.data());
    unpack_part(row, stretch.first + done, n, values);
    if (rotation > 0) rotate_row(values, n, rotation);
    store_row(values, to + done, n);
  }
}

template <class Out>
void unpack_rows(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t rotation, at::Tensor& out) {
  if (out.is_meta()) return;
  const auto* code = codes.const_data_ptr<uint8_t>();
  const auto* scale = scales.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<Out>();
  const int64_t bytes = codes.size(1), groups = scales.size(1), in = out.size(1);
  at::parallel_for(0, codes.size(0), std::max<int64_t>(1, 32768 / std::max<int64_t>(1, in)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      unpack_stretch({kind, code + row * bytes, scale + row * groups, group}, {0, in}, rotation, to + row * in);
  });
}

/// Plain ATen, for devices without a tuned version.
at::Tensor unpack_anywhere(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in,
                           c10::ScalarType dtype) {
  at::Tensor values;
  switch (kind) {
    case CodeKind::mxfp8:
    case CodeKind::e4m3: values = codes.view(at::kFloat8_e4m3fn).to(at::kFloat); break;
    case CodeKind::e5m2: values = codes.view(at::kFloat8_e5m2).to(at::kFloat); break;
    case CodeKind::int8_convrot:
    case CodeKind::int8: values = codes.view(at::kChar).to(at::kFloat); break;
    default: {
      const auto& list = values_of(kind);
      auto values_16 = at::tensor(at::ArrayRef<float>(list.data(), list.size()), at::kFloat).to(codes.device());
      auto pairs = at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, -1).flatten(1).narrow(1, 0, in);
      values = at::embedding(values_16.unsqueeze(1), pairs.to(at::kInt)).squeeze(-1);
    }
  }
  if (scales.size(1) == 1) return values.mul_(scales).to(dtype);
  return values.mul_(scales.repeat_interleave(group, 1).narrow(1, 0, in)).to(dtype);
}

}  // namespace

namespace {

/// Tells whether values of more rows than go at once are fp32 before they are of a narrower type.
bool is_wide_first(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype,
                   int64_t rotation) {
  if (c10::elementSize(dtype) >= sizeof(float) || codes.size(0) * in <= kWideNumbers) return false;
  if (code_block(kind).holds_scales) return true;
  if (runs_on_cpu(codes)) return rotation > 0 && kBuffer % rotation != 0;
  return rotation > 0 || !unpack_fits_gpu(codes, kind, scales, group, in, dtype);
}

/// Unpacks some rows at a time, of which none depends on another: fp32 of a whole weight is four times its codes.
at::Tensor unpack_in_pieces(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in,
                            c10::ScalarType dtype, int64_t rotation) {
  auto out = at::empty({codes.size(0), in}, codes.options().dtype(dtype));
  const auto step = std::max<int64_t>(1, kWideNumbers / in);
  for (int64_t begin = 0; begin < codes.size(0); begin += step) {
    const auto count = std::min(step, codes.size(0) - begin);
    const auto scales_of_piece = code_block(kind).holds_scales ? scales : scales.narrow(0, begin, count);
    out.narrow(0, begin, count).copy_(unpack(codes.narrow(0, begin, count), kind, scales_of_piece, group, in, at::kFloat, rotation));
  }
  return out;
}

}  // namespace

at::Tensor unpack(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype,
                  int64_t rotation) {
  if (is_wide_first(codes, kind, scales, group, in, dtype, rotation))
    return unpack_in_pieces(codes, kind, scales, group, in, dtype, rotation);
  // Numbers that are rotated together may reach over what the CPU's loop has at once.
  if (rotation > 0 && (!runs_on_cpu(codes) || kBuffer % rotation != 0)) {
    auto values = unpack(codes, kind, scales, group, in, at::kFloat);
    rotate_(values, rotation);
    return values.to(dtype);
  }
  if (code_block(kind).holds_scales) {
    if (codes.is_meta()) return at::empty({codes.size(0), in}, codes.options().dtype(dtype));
    return unpack_blocks(codes, kind, in).to(dtype);
  }
  if (unpack_fits_gpu(codes, kind, scales, group, in, dtype)) return unpack_gpu(codes, kind, scales, group, in, dtype);
  if (!runs_on_cpu(codes)) return unpack_anywhere(codes, kind, scales, group, in, dtype);
  const bool narrow = dtype == at::kBFloat16;
  auto out = at::empty({codes.size(0), in}, scales.options().dtype(narrow ? at::kBFloat16 : at::kFloat));
  auto plain_codes = codes.contiguous(), plain_scales = scales.contiguous();
  if (narrow) unpack_rows<c10::BFloat16>(plain_codes, kind, plain_scales, group, rotation, out);
  else unpack_rows<float>(plain_codes, kind, plain_scales, group, rotation, out);
  return out.to(dtype);
}

void unpack_tile(const CodedMatrix& weight, Stretch rows, Stretch columns, c10::BFloat16* to, int64_t stride) {
  const auto& block = code_block(weight.kind);
  const auto in_bytes = [&](int64_t numbers) { return numbers / block.numbers * block.bytes; };
  if (block.holds_scales) {
    const auto codes = weight.codes.narrow(0, rows.first, rows.count).narrow(1, in_bytes(columns.first), in_bytes(columns.count));
    const auto values = unpack_blocks(codes.contiguous(), weight.kind, columns.count).to(at::kBFloat16);
    for (int64_t r = 0; r < rows.count; ++r)
      std::copy_n(values.const_data_ptr<c10::BFloat16>() + r * columns.count, columns.count, to + r * stride);
    return;
  }
  const auto* codes = weight.codes.const_data_ptr<uint8_t>();
  const auto* scales = weight.scales.const_data_ptr<float>();
  const auto bytes = in_bytes(columns.count);
  // Stretches of many rows lie in as many pages, which processors do not foresee.
  constexpr int64_t kAhead = 16, kLine = 64;
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto row = rows.first + r;
    const auto* ahead = codes + std::min(row + kAhead, rows.first + rows.count - 1) * weight.codes.stride(0) + in_bytes(columns.first);
    for (int64_t byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(ahead + byte);
    unpack_stretch({weight.kind, codes + row * weight.codes.stride(0), scales + row * weight.scales.stride(0), weight.group}, columns,
                   weight.rotation, to + r * stride);
  }
}

}  // namespace burnish::kernels
