#include "models/files/tensor_subclasses.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "base/input_error.h"

namespace burnish::models {

namespace {

constexpr std::string_view kOfQuanto = ".weight._data", kOfTorchao = "._weight_qdata";

std::string weight_of(const std::string& name) {
  if (name.ends_with(kOfQuanto)) return name.substr(0, name.size() - std::string_view("._data").size());
  if (name.ends_with(kOfTorchao)) return name.substr(0, name.size() - kOfTorchao.size()) + ".weight";
  return name;
}

std::optional<CodeKind> kind_of(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kChar: return CodeKind::int8;
    case at::kFloat8_e4m3fn: return CodeKind::e4m3;
    case at::kFloat8_e5m2: return CodeKind::e5m2;
    default: return std::nullopt;
  }
}

}  // namespace

io::TensorSource with_weights_names(const io::TensorSource& tensors) {
  const auto names = tensors.names();
  const bool has_some = std::ranges::any_of(names, [](const auto& name) { return weight_of(name) != name; });
  return has_some ? tensors.renamed(weight_of) : tensors;
}

std::optional<CodedWeight> find_row_scaled(const MarkedFiles& files, const std::string& name) {
  const auto& info = files.tensors.info(name);
  const auto kind = kind_of(info.dtype);
  if (!kind || !name.ends_with(".weight") || info.shape.size() != 2) return std::nullopt;
  const auto layer = layer_of(name), zero = layer + "._weight_zero_point";
  auto scale = name + "._scale";
  if (!files.tensors.contains(scale)) scale = layer + "._weight_scale";
  if (!files.tensors.contains(scale) || files.tensors.info(scale).shape != std::vector<int64_t>{info.shape[0], 1}) return std::nullopt;
  check_scale(files.tensors, scale, info.shape[0]);
  CodedWeight weight{.shape = info.shape, .layout = codes_on_meta(*kind, info.shape), .beside = {scale}, .read = {}};
  weight.layout.scales = scales_on_meta(info.shape[0], 1);
  if (files.tensors.contains(zero)) weight.beside.push_back(zero);
  weight.read = [name, beside = weight.beside](const io::TensorSource& tensors) {
    if (beside.size() > 1 && tensors.tensor(beside[1]).to(at::kLong).abs().sum().item<int64_t>() != 0)
      data_error("models", "'{}' moves the zero of '{}', which is not read here; take the model's files in bf16", beside[1], name);
    auto codes = tensors.tensor(name);
    return CodeTensors{codes.view(at::kByte), scale_in(tensors, beside[0], codes.size(0))};
  };
  return weight;
}

}  // namespace burnish::models
