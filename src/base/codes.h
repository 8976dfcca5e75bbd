#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

namespace burnish {

/// The kinds of codes that numbers are held as: of eight bits (two FP8 formats and INT8), of four (NF4 and FP4 of bitsandbytes, E2M1),
/// the blocks of GGUF files, whose scales lie among their codes, E4M3 with a scale for neighbours (MXFP8), and whole numbers of eight and
/// four bits for rows that were rotated first (kernels/rotate).
enum class CodeKind {
  e4m3,
  e5m2,
  int8,
  nf4,
  fp4,
  e2m1,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp8,
  int8_convrot,
  int4_convrot,
};
constexpr CodeKind kLastKind = CodeKind::int4_convrot;

/// A kind's least piece: so many neighbouring numbers of a row in so many bytes.
struct CodeBlock {
  std::string_view name;      ///< what the kind is called
  int64_t numbers, bytes;     ///< numbers of a block, and its bytes
  int64_t group = 0;          ///< neighbours that one scale covers where no file says otherwise; 0: all of a row
  bool holds_scales = false;  ///< whether scales lie in its bytes
};
const CodeBlock& code_block(CodeKind kind);
/// Counts the bytes of so many numbers.
int64_t code_bytes(CodeKind kind, int64_t numbers);
inline bool is_fp8(CodeKind kind) { return kind == CodeKind::e4m3 || kind == CodeKind::e5m2; }
inline bool is_rotated(CodeKind kind) { return kind == CodeKind::int8_convrot || kind == CodeKind::int4_convrot; }

/// A weight as codes, in the way in which it lies in files. It is a matrix [rows, in], whatever its own shape is.
struct Codes {
  CodeKind kind = CodeKind::e4m3;
  at::Tensor codes;            ///< [rows, bytes of a row] uint8
  at::Tensor scales = {};      ///< fp32 [1, 1], [rows, 1] or [rows, groups]; undefined: none, or in the codes
  std::vector<int64_t> sizes;  ///< the weight's own shape, rows first
  int64_t group = 0;           ///< neighbours in a row that one of [rows, groups] covers
  int64_t rotation = 0;        ///< neighbours of a row that were rotated together before they were rounded; 0: none

  int64_t num_rows() const { return codes.size(0); }
  int64_t in() const;
  /// Returns so many rows from the given one on, sharing storage.
  Codes rows(int64_t begin, int64_t count) const;
};

/// Codes and scales of a kind and shape on the meta device.
Codes codes_on_meta(CodeKind kind, at::IntArrayRef sizes);

}  // namespace burnish
