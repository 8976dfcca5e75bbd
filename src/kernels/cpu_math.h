#pragma once
#include <cstdint>

// Functions of one fp32 number that compilers vectorise, for the tuned CPU operators.
namespace burnish::kernels {

/// e^v for |v| <= 87, to about one unit in the last place: 2^n times a polynomial on [-ln2/2, ln2/2].
inline float exp_fp32(float v) {
  constexpr float kLog2e = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float shifted = v * kLog2e + 12582912.0f;  // 1.5 · 2^23: the sum's low bits hold the rounded integer
  const float n = shifted - 12582912.0f;
  const float r = (v - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits, power;
  __builtin_memcpy(&power, &shifted, sizeof(power));
  __builtin_memcpy(&bits, &p, sizeof(bits));
  bits += power << 23;
  float result;
  __builtin_memcpy(&result, &bits, sizeof(result));
  return result;
}

/// 1 / (1 + e^-x); beyond |x| = 80 it is 0 or 1 in fp32 anyway. NaN stays NaN.
inline float sigmoid_fp32(float x) {
  float v = -x;
  v = v > 80.0f ? 80.0f : v;
  v = v < -80.0f ? -80.0f : v;
  return 1.0f / (1.0f + exp_fp32(v));
}

}  // namespace burnish::kernels
