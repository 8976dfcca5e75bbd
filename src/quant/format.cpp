#include "quant/format.h"

#include <array>
#include <string>

#include "base/choice.h"

namespace burnish::quant {

namespace {

struct Named {
  const char* name;
  Format format;
  const char* words;
};

constexpr std::array kFormats{
    Named{"fp8", {CodeKind::e4m3, Scaling::row}, "FP8 (E4M3) with a scale per output row"},
    Named{"fp8_tensor", {CodeKind::e4m3, Scaling::tensor}, "FP8 (E4M3) with a scale per weight"},
    Named{"fp8_block", {CodeKind::e4m3, Scaling::block}, "FP8 (E4M3) with a scale per 128x128 block"},
    Named{"fp8_plain", {CodeKind::e4m3, Scaling::none}, "FP8 (E4M3) without scales"},
    Named{"fp8_e5m2", {CodeKind::e5m2, Scaling::row}, "FP8 (E5M2) with a scale per output row"},
    Named{"int8", {CodeKind::int8, Scaling::row}, "INT8 with a scale per output row"},
    Named{"int8_convrot", {CodeKind::int8_convrot, Scaling::row}, "INT8 with a scale per output row of rotated numbers (ConvRot)"},
    Named{"nf4", {CodeKind::nf4, Scaling::row_block}, "NF4 with a scale per 64 values"},
};

}  // namespace

Format parse_format(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& known : kFormats) {
    if (name == known.name) return known.format;
    names.emplace_back(known.name);
  }
  unknown_choice("quant", "weight_format", name, names);
}

std::string format_name(Format format) {
  for (const auto& known : kFormats) {
    if (format == known.format) return known.name;
  }
  return describe(format);
}

std::string describe(Format format) {
  for (const auto& known : kFormats) {
    if (format == known.format) return known.words;
  }
  // Only in files.
  const auto name = std::string(code_block(format.codes).name);
  switch (format.scaling) {
    case Scaling::none: return code_block(format.codes).holds_scales ? name : name + " without scales";
    case Scaling::tensor: return name + " with a scale per weight";
    case Scaling::row: return name + " with a scale per output row";
    default: return name + " with a scale per " + std::to_string(format.group) + " values";
  }
}

double largest(CodeKind codes) {
  switch (codes) {
    case CodeKind::e4m3: return 448;
    case CodeKind::e5m2: return 57344;
    case CodeKind::int8:
    case CodeKind::int8_convrot: return 127;
    default: return 1;
  }
}

int64_t rotation_of(Format format, int64_t in) {
  if (!is_rotated(format.codes)) return 0;
  for (int64_t rotation = 256; rotation >= 16; rotation /= 4) {
    if (in % rotation == 0) return rotation;
  }
  return 0;
}

int64_t group_size(Format format, int64_t in) {
  return format.scaling == Scaling::block ? 128 : format.scaling == Scaling::row_block ? format.group : in;
}

int64_t stored_bytes(Format format, int64_t out, int64_t in) {
  const int64_t codes = out * code_bytes(format.codes, in);
  switch (format.scaling) {
    case Scaling::none:
    case Scaling::tensor: return codes + 4;
    case Scaling::row: return codes + 4 * out;
    case Scaling::block: return codes + 4 * ceil_div(out, 128) * ceil_div(in, 128);
    case Scaling::row_block: return codes + 4 * out * ceil_div(in, format.group);
  }
  return codes;
}

}  // namespace burnish::quant
