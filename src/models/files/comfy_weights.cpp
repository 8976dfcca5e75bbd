#include "models/files/comfy_weights.h"

#include <ATen/TensorOperators.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "base/input_error.h"
#include "kernels/quantize_blocks/quantize_blocks.h"

namespace burnish::models {

namespace {

constexpr std::string_view kScales[] = {".scale_weight", ".weight_scale"};
constexpr std::string_view kMarks[] = {".scale_input", ".input_scale", ".output_scale", ".scaled_fp8", ".weight_s_rel", kComfyMark};
constexpr std::string_view kFileMark = "scaled_fp8";

bool is_one_number(const io::TensorInfo& info) { return c10::multiply_integers(info.shape) == 1; }

/// Codes of a byte, with a scale beside them or none: FP8 of ComfyUI and others, and ComfyUI's INT8.
std::optional<CodedWeight> bytes_with_scale(const MarkedFiles& files, const std::string& name, CodeKind kind, int64_t rotation = 0) {
  const auto& shape = files.tensors.info(name).shape;
  CodedWeight weight{.shape = shape, .layout = codes_on_meta(kind, shape), .read = {}};
  weight.layout.rotation = rotation;
  for (auto ending : kScales) {
    auto scale = layer_of(name) + std::string(ending);
    if (name.ends_with(kWeight) && weight.beside.empty() && files.tensors.contains(scale)) weight.beside = {scale};
  }
  if (!weight.beside.empty()) weight.layout.scales = scales_on_meta(is_one_number(files.tensors.info(weight.beside[0])) ? 1 : shape[0], 1);
  weight.read = [name, beside = weight.beside](const io::TensorSource& tensors) {
    const auto codes = tensors.tensor(name);
    CodeTensors read{codes.view(at::kByte).reshape({codes.size(0), -1})};
    if (!beside.empty()) read.scales = scale_in(tensors, beside[0], codes.size(0));
    return read;
  };
  return weight;
}

bool has_rows(const io::TensorInfo& info) { return !info.shape.empty() && info.end > info.begin; }

bool is_power_of_four(int64_t number) {
  while (number > 1 && number % 4 == 0) number /= 4;
  return number == 1;
}

/// Reads what a mark says in the place of older files, or in its own.
const nlohmann::json& numbers_in(const nlohmann::json& mark) {
  return mark.contains("params") && mark["params"].is_object() ? mark["params"] : mark;
}

/// Scales as products read them (kernels/quantize_blocks), as a byte for each block of a row: [rows, blocks].
at::Tensor scales_in_rows(const at::Tensor& laid_out, const std::string& name, int64_t rows, int64_t blocks) {
  const int64_t expected = (rows + 127) / 128 * ((blocks + 3) / 4) * 512;
  if (laid_out.numel() != expected || laid_out.element_size() != 1)
    data_error("models", "'{}' has {} scales where {} of a byte were expected; its file is damaged", name, laid_out.numel(), expected);
  return kernels::in_rows(laid_out, rows, blocks);
}

/// A weight of a byte for two numbers.
CodedWeight pairs(CodeKind kind, const io::TensorInfo& info, std::vector<std::string> beside) {
  const std::vector<int64_t> shape{info.shape[0], 2 * info.shape[1]};
  return {.shape = shape, .layout = codes_on_meta(kind, shape), .beside = std::move(beside), .read = {}};
}

/// Bytes of two numbers whose first is in the low half, with the first in the high half.
at::Tensor first_in_high_half(const at::Tensor& bytes) {
  const auto plain = bytes.contiguous().view(at::kByte);
  return plain.bitwise_left_shift(4).add_(plain.bitwise_right_shift(4));
}

}  // namespace

bool is_scale_or_mark(std::string_view name) {
  auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  return name == kFileMark || std::ranges::any_of(kScales, ends) || std::ranges::any_of(kMarks, ends);
}

int64_t rotation_in(const nlohmann::json& more, const std::string& name, int64_t in) {
  const auto said = more.value("convrot_groupsize", nlohmann::json(256));
  const auto rotation = said.is_number_integer() ? said.get<int64_t>() : 0;
  if (!is_power_of_four(rotation) || in % rotation != 0)
    data_error("models", "'{}' is rotated by {} neighbours, which is no power of 4 that divides its rows; its file is damaged", name,
               said.dump(-1, ' ', true));
  return rotation;
}

std::optional<CodedWeight> find_fp8(const MarkedFiles& files, const std::string& name) {
  if (is_scale_or_mark(name)) return std::nullopt;  // which may be in FP8 too
  const auto& info = files.tensors.info(name);
  if ((info.dtype != at::kFloat8_e4m3fn && info.dtype != at::kFloat8_e5m2) || !has_rows(info)) return std::nullopt;
  if (const auto* mark = files.mark_of(name); mark && !format_of(*mark).starts_with("float8_")) return std::nullopt;
  auto weight = bytes_with_scale(files, name, info.dtype == at::kFloat8_e4m3fn ? CodeKind::e4m3 : CodeKind::e5m2);
  // Scales that are exponents are those of MXFP8.
  for (const auto& scale : weight->beside) {
    if (!c10::isFloatingType(files.tensors.info(scale).dtype) || files.tensors.info(scale).dtype == at::kFloat8_e8m0fnu)
      return std::nullopt;
    check_scale(files.tensors, scale, info.shape[0]);
  }
  return weight;
}

std::optional<CodedWeight> find_int8(const MarkedFiles& files, const std::string& name) {
  const auto* mark = files.mark_of(name);
  const auto& info = files.tensors.info(name);
  if (!mark || format_of(*mark) != "int8_tensorwise" || info.dtype != at::kChar || !has_rows(info)) return std::nullopt;
  const auto& more = numbers_in(*mark);
  const bool is_rotated = info.shape.size() == 2 && more.value("convrot", nlohmann::json(false)) == true;
  const auto rotation = is_rotated ? rotation_in(more, name, info.shape[1]) : 0;
  auto weight = bytes_with_scale(files, name, rotation > 0 ? CodeKind::int8_convrot : CodeKind::int8, rotation);
  if (weight->beside.empty()) return std::nullopt;
  check_scale(files.tensors, weight->beside[0], info.shape[0]);
  return weight;
}

std::optional<CodedWeight> find_mxfp8(const MarkedFiles& files, const std::string& name) {
  constexpr int64_t kGroup = 32;
  const auto* mark = files.mark_of(name);
  const auto& info = files.tensors.info(name);
  const auto scale = layer_of(name) + ".weight_scale";
  const bool is_one = mark && format_of(*mark) == "mxfp8" && info.dtype == at::kFloat8_e4m3fn && files.tensors.contains(scale);
  if (!is_one || info.shape.size() != 2 || info.shape[1] % kGroup != 0) return std::nullopt;
  return CodedWeight{.shape = info.shape,
                     .layout = codes_on_meta(CodeKind::mxfp8, info.shape),
                     .beside = {scale},
                     .read = [name, scale](const io::TensorSource& tensors) {
                       const auto codes = tensors.tensor(name);
                       const auto exponents = scales_in_rows(tensors.tensor(scale), scale, codes.size(0), codes.size(1) / kGroup);
                       return CodeTensors{codes.view(at::kByte), kernels::powers_of_two(exponents)};
                     }};
}

std::optional<CodedWeight> find_nvfp4(const MarkedFiles& files, const std::string& name) {
  constexpr int64_t kGroup = 16;
  const auto* mark = files.mark_of(name);
  const auto& info = files.tensors.info(name);
  const auto layer = layer_of(name), scale = layer + ".weight_scale", whole = layer + ".weight_scale_2";
  const bool is_one = mark && format_of(*mark) == "nvfp4" && info.dtype == at::kByte && info.shape.size() == 2 &&
                      files.tensors.contains(scale) && files.tensors.contains(whole);
  // A weight that its inputs' scales were taken out of is another.
  if (!is_one || (2 * info.shape[1]) % kGroup != 0 || files.tensors.contains(layer + ".pre_quant_scale")) return std::nullopt;
  check_scale(files.tensors, whole, 1);
  auto weight = pairs(CodeKind::e2m1, info, {scale, whole});
  weight.read = [name, scale, whole, shape = weight.shape](const io::TensorSource& tensors) {
    auto bytes = scales_in_rows(tensors.tensor(scale), scale, shape[0], shape[1] / kGroup);
    auto scales = bytes.view(at::kFloat8_e4m3fn).to(at::kFloat).mul_(scale_in(tensors, whole, 1));
    return CodeTensors{tensors.tensor(name), scales};
  };
  return weight;
}

std::optional<CodedWeight> find_unmarked_nvfp4(const MarkedFiles& files, const std::string& name) {
  constexpr int64_t kGroup = 16;
  const auto& tensors = files.tensors;
  const auto& info = tensors.info(name);
  const auto layer = layer_of(name), scale = layer + ".weight_scale", whole = layer + ".weight_scale_2";
  const bool is_one = name.ends_with(kWeight) && !files.mark_of(name) && info.dtype == at::kByte && info.shape.size() == 2 &&
                      tensors.contains(scale) && tensors.contains(whole) && tensors.contains(layer + ".input_scale") &&
                      tensors.info(scale).dtype == at::kFloat8_e4m3fn && !tensors.contains(layer + ".pre_quant_scale");
  if (!is_one) return std::nullopt;
  auto weight = pairs(CodeKind::e2m1, info, {scale, whole});
  const std::vector<int64_t> expected{weight.shape[0], weight.shape[1] / kGroup};
  if (tensors.info(scale).shape != expected || weight.shape[1] % kGroup != 0)
    data_error("models", "'{}' has not one scale for each {} numbers of the rows of '{}'; its file is damaged", scale, kGroup, name);
  check_scale(tensors, whole, 1);
  weight.read = [name, scale, whole](const io::TensorSource& source) {
    auto scales = source.tensor(scale).to(at::kFloat).mul_(scale_in(source, whole, 1));
    return CodeTensors{first_in_high_half(source.tensor(name)), scales};
  };
  return weight;
}

std::optional<CodedWeight> find_int4(const MarkedFiles& files, const std::string& name) {
  const auto* mark = files.mark_of(name);
  const auto& info = files.tensors.info(name);
  const auto scale = layer_of(name) + ".weight_scale";
  const bool is_one = mark && format_of(*mark) == "convrot_w4a4" && info.dtype == at::kChar && info.shape.size() == 2;
  if (!is_one || !files.tensors.contains(scale)) return std::nullopt;
  auto weight = pairs(CodeKind::int4_convrot, info, {scale});
  const auto rows = info.shape[0];
  check_scale(files.tensors, scale, rows);
  weight.layout.rotation = rotation_in(numbers_in(*mark), name, weight.shape[1]);
  weight.layout.scales = scales_on_meta(is_one_number(files.tensors.info(scale)) ? 1 : rows, 1);
  weight.read = [name, scale, rows](const io::TensorSource& tensors) {
    return CodeTensors{first_in_high_half(tensors.tensor(name)), scale_in(tensors, scale, rows)};
  };
  return weight;
}

}  // namespace burnish::models
