#include "base/codes.h"

#include <ATen/ops/empty.h>

#include <array>

namespace burnish {

namespace {

constexpr std::array kBlocks{
    CodeBlock{"FP8 (E4M3)", 1, 1},        CodeBlock{"FP8 (E5M2)", 1, 1},        CodeBlock{"INT8", 1, 1},
    CodeBlock{"NF4", 2, 1, 64},           CodeBlock{"FP4", 2, 1, 64},           CodeBlock{"FP4 (E2M1)", 2, 1, 16},
    CodeBlock{"Q4_0", 32, 18, 0, true},   CodeBlock{"Q4_1", 32, 20, 0, true},   CodeBlock{"Q5_0", 32, 22, 0, true},
    CodeBlock{"Q5_1", 32, 24, 0, true},   CodeBlock{"Q8_0", 32, 34, 0, true},   CodeBlock{"Q2_K", 256, 84, 0, true},
    CodeBlock{"Q3_K", 256, 110, 0, true}, CodeBlock{"Q4_K", 256, 144, 0, true}, CodeBlock{"Q5_K", 256, 176, 0, true},
    CodeBlock{"Q6_K", 256, 210, 0, true}, CodeBlock{"IQ4_NL", 32, 18, 0, true}, CodeBlock{"IQ4_XS", 256, 136, 0, true},
    CodeBlock{"MXFP8", 1, 1, 32},         CodeBlock{"INT8 (ConvRot)", 1, 1},    CodeBlock{"INT4 (ConvRot)", 2, 1},
};
static_assert(kBlocks.size() == static_cast<size_t>(kLastKind) + 1);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

const CodeBlock& code_block(CodeKind kind) { return kBlocks.at(static_cast<size_t>(kind)); }

int64_t code_bytes(CodeKind kind, int64_t numbers) {
  const auto& block = code_block(kind);
  return ceil_div(numbers, block.numbers) * block.bytes;
}

int64_t Codes::in() const {
  int64_t numbers = 1;
  for (size_t i = 1; i < sizes.size(); ++i) numbers *= sizes[i];
  return numbers;
}

Codes Codes::rows(int64_t begin, int64_t count) const {
  auto part = *this;
  part.codes = codes.narrow(0, begin, count);
  if (scales.defined() && scales.size(0) > 1) part.scales = scales.narrow(0, begin, count);
  part.sizes[0] = count;
  return part;
}

Codes codes_on_meta(CodeKind kind, at::IntArrayRef sizes) {
  Codes made{.kind = kind, .codes = {}, .sizes = sizes.vec()};
  const auto on_meta = at::TensorOptions().device(at::kMeta);
  const int64_t group = code_block(kind).group;
  made.codes = at::empty({sizes[0], code_bytes(kind, made.in())}, on_meta.dtype(at::kByte));
  made.group = group;
  if (group > 0) made.scales = at::empty({sizes[0], ceil_div(made.in(), group)}, on_meta.dtype(at::kFloat));
  return made;
}

}  // namespace burnish
