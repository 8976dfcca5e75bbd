#include "models/files/coding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/accumulate.h>

#include "base/dtype.h"
#include "base/input_error.h"
#include "kernels/unpack/unpack.h"

namespace burnish::models {

namespace {

nlohmann::json parsed(std::string_view text) { return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false); }

}  // namespace

Codes CodedWeight::codes_in(const io::TensorSource& tensors) const {
  auto found = read(tensors);
  auto codes = layout;
  codes.codes = found.codes;
  codes.scales = found.scales;
  return codes;
}

at::Tensor scales_on_meta(int64_t rows, int64_t groups) {
  return at::empty({rows, groups}, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
}

MarkedFiles::MarkedFiles(const io::TensorSource& all) : tensors(all) {
  for (const auto& file : tensors.files()) {
    auto said = file->metadata().find(kQuantizationMetadata);
    if (said == file->metadata().end()) continue;
    const auto json = parsed(said->second);
    if (!json.is_object() || !json.contains("layers") || !json["layers"].is_object()) continue;
    for (const auto& [layer, mark] : json["layers"].items()) marks[layer] = mark;
  }
  for (const auto& name : tensors.names()) {
    if (!name.ends_with(kComfyMark) || tensors.info(name).dtype != at::kByte) continue;
    auto bytes = tensors.tensor(name).contiguous();
    marks[name.substr(0, name.size() - kComfyMark.size())] =
        parsed({static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())});
  }
}

const nlohmann::json* MarkedFiles::mark_of(const std::string& weight) const {
  auto layer = layer_of(weight);
  auto found = marks.find(layer);
  // Layers in a file's metadata may lack what their tensors' names begin with.
  constexpr std::string_view kPrefix = "model.diffusion_model.";
  if (found == marks.end() && layer.starts_with(kPrefix)) found = marks.find(layer.substr(kPrefix.size()));
  return found == marks.end() ? nullptr : &found->second;
}

std::string format_of(const nlohmann::json& mark) {
  auto format = mark.is_object() ? mark.find("format") : mark.end();
  return mark.is_object() && format != mark.end() && format->is_string() ? format->get<std::string>() : "";
}

std::string layer_of(const std::string& weight) {
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

at::Tensor numbers_of(const Codes& codes) {
  const auto rows = codes.num_rows(), in = codes.in();
  const bool by_groups = codes.scales.defined() && codes.scales.size(1) > 1;
  auto scales = codes.scales.defined() ? codes.scales : at::ones({1, 1}, codes.codes.options().dtype(at::kFloat));
  if (scales.size(0) == 1 && rows > 1) scales = scales.expand({rows, scales.size(1)});
  return kernels::unpack(codes.codes, codes.kind, scales, by_groups ? codes.group : in, in, at::kFloat, codes.rotation).view(codes.sizes);
}

void check_scale(const io::TensorSource& tensors, const std::string& name, int64_t rows) {
  const auto& info = tensors.info(name);
  const auto count = c10::multiply_integers(info.shape);
  if (count != 1 && count != rows)
    data_error("models", "'{}' has {} scales for the {} rows of its weight; one, or one a row, is known", name, count, rows);
  if (!c10::isFloatingType(info.dtype))
    data_error("models", "'{}' holds its scales in {}, and floating-point numbers were expected; its file is damaged", name,
               dtype_name(info.dtype));
}

at::Tensor scale_in(const io::TensorSource& tensors, const std::string& name, int64_t rows) {
  check_scale(tensors, name, rows);
  const auto scale = tensors.tensor(name).to(at::kFloat);
  return scale.reshape({scale.numel(), 1});
}

}  // namespace burnish::models
