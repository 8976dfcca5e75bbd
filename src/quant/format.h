#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/codes.h"

namespace burnish::quant {

/// Divides a by b and rounds up: the least n with n · b ≥ a.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The numbers that one scale covers: none are scaled, all of W, one output row, a 128×128 block, or neighbours of a row (64 for NF4).
enum class Scaling { none, tensor, row, block, row_block };

/// A format in which a frozen weight is stored: its codes and what their scales cover.
struct Format {
  CodeKind codes = CodeKind::e4m3;
  Scaling scaling = Scaling::row;
  int64_t group = 64;  ///< how many neighbours, where these share a scale
  bool operator==(const Format&) const = default;
};

/// Reads fp8 (E4M3, one scale an output row), fp8_tensor, fp8_block, fp8_plain (a cast, as other programs do), fp8_e5m2, int8, int8_convrot
/// or nf4. A config Error lists them.
Format parse_format(std::string_view name);
std::string format_name(Format format);
/// The names that parse_format reads.
std::vector<std::string> format_names();
/// Describes the format in words, for the log.
std::string describe(Format format);

/// Returns how many neighbours of a row of `in` numbers a format rotates together: 256, or the largest power of 4 from 16 on that divides
/// `in`; 0 where none does, or the format rotates nothing.
int64_t rotation_of(Format format, int64_t in);
/// The largest value of the codes themselves: 448, 57344, 127, 1. Numbers are turned into no others than these.
double largest(CodeKind codes);
/// The number of values of a row that share a scale.
int64_t group_size(Format format, int64_t in);
/// Counts the bytes of codes and scales of a weight [out, in].
int64_t stored_bytes(Format format, int64_t out, int64_t in);

}  // namespace burnish::quant
