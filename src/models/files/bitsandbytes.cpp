#include "models/files/bitsandbytes.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>

#include <numeric>

#include "base/dtype.h"
#include "base/input_error.h"
#include "kernels/unpack/unpack.h"

namespace burnish::models {

namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 40;

/// The contents of `quant_state`.
struct State {
  CodeKind kind = CodeKind::nf4;
  std::vector<int64_t> shape;
  int64_t block = 64, nested_block = 256;
  double nested_offset = 0;
  int64_t num_numbers() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  data_error("models", "the four bits of '{}', as bitsandbytes stores them, do not fit together: {}; its file is damaged", name, what);
}

State state_of(const io::TensorSource& tensors, const std::string& mark, const std::string& name) {
  auto bytes = tensors.tensor(mark).contiguous();
  auto json = nlohmann::json::parse(std::string_view(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()), nullptr, false);
  if (!json.is_object()) refuse(name, "the quant_state is no JSON");
  State state;
  auto take = [&](const char* key, auto& value) {
    auto it = json.find(key);
    if (it == json.end() || it->is_null()) return;
    try {
      it->get_to(value);
    } catch (const nlohmann::json::exception&) {
      refuse(name, fmt::format("its {} is {}", key, it->dump(-1, ' ', true)));
    }
  };
  take("shape", state.shape);
  take("blocksize", state.block);
  take("nested_blocksize", state.nested_block);
  take("nested_offset", state.nested_offset);
  int64_t numbers = 1;
  for (auto side : state.shape) {
    if (side < 1 || side > kMostNumbers / numbers) refuse(name, "its shape has a side of " + std::to_string(side));
    numbers *= side;
  }
  if (state.shape.empty()) refuse(name, "it has no shape");
  if (state.block < 2 || state.block % 2 != 0 || state.block > kMostNumbers || state.nested_block < 1 || state.nested_block > kMostNumbers)
    refuse(name, "its blocks have " + std::to_string(state.block) + " numbers");
  return state;
}

/// A tensor beside the weight that has so many numbers.
at::Tensor beside(const io::TensorSource& tensors, const std::string& name, const char* ending, int64_t count) {
  auto full = name + ending;
  if (!tensors.contains(full)) refuse(name, "there is no '" + full + "'");
  auto tensor = tensors.tensor(full).flatten();
  if (tensor.numel() != count) refuse(name, fmt::format("'{}' has {} numbers where {} were expected", full, tensor.numel(), count));
  return tensor;
}

/// One that holds floating-point numbers, as fp32.
at::Tensor numbers_beside(const io::TensorSource& tensors, const std::string& name, const char* ending, int64_t count) {
  const auto tensor = beside(tensors, name, ending, count);
  if (!tensor.is_floating_point())
    refuse(name, fmt::format("'{}{}' holds {}, and floating-point numbers were expected", name, ending, dtype_name(tensor.scalar_type())));
  return tensor.to(at::kFloat);
}

/// The scales of the blocks, fp32.
at::Tensor scales_in(const io::TensorSource& tensors, const std::string& name, const State& state) {
  const auto count = (state.num_numbers() + state.block - 1) / state.block;
  const auto scales = beside(tensors, name, ".absmax", count);
  if (scales.scalar_type() != at::kByte) return numbers_beside(tensors, name, ".absmax", count);
  const auto nested = numbers_beside(tensors, name, ".nested_absmax", (count + state.nested_block - 1) / state.nested_block);
  const auto values = numbers_beside(tensors, name, ".nested_quant_map", 256);
  auto each = nested.repeat_interleave(state.nested_block).narrow(0, 0, count);
  return at::index_select(values, 0, scales.to(at::kInt)).mul_(each).add_(state.nested_offset);
}

void check_values(const io::TensorSource& tensors, const std::string& name, CodeKind kind) {
  const auto map = numbers_beside(tensors, name, ".quant_map", 16).contiguous();
  const auto& values = kernels::values_of(kind);
  for (size_t i = 0; i < values.size(); ++i) {
    // Versions of bitsandbytes round some of them in the last bit.
    if (!(std::abs(map.const_data_ptr<float>()[i] - values[i]) <= 1e-6f))
      refuse(name, fmt::format("its quant_map is not that of {}", code_block(kind).name));
  }
}

CodeTensors read(const io::TensorSource& tensors, const std::string& name, const State& state, int64_t rows) {
  check_values(tensors, name, state.kind);
  auto bytes = tensors.tensor(name).contiguous().view(at::kByte).flatten();  // which may be stored as wider numbers
  if (bytes.numel() != code_bytes(state.kind, state.num_numbers()))
    refuse(name, fmt::format("it has {} bytes for {} numbers", bytes.numel(), state.num_numbers()));
  return {bytes.view({rows, -1}), scales_in(tensors, name, state).view({rows, -1})};
}

}  // namespace

std::optional<CodedWeight> find_four_bits(const MarkedFiles& files, const std::string& name) {
  for (auto [kind, word] : {std::pair{CodeKind::nf4, "nf4"}, {CodeKind::fp4, "fp4"}}) {
    auto mark = name + ".quant_state.bitsandbytes__" + word;
    if (!files.tensors.contains(mark)) continue;
    auto state = state_of(files.tensors, mark, name);
    state.kind = kind;
    const bool is_flat = state.num_numbers() / state.shape[0] % state.block != 0;
    const auto sizes = is_flat ? std::vector{int64_t{1}, state.num_numbers()} : state.shape;
    CodedWeight weight{.shape = state.shape, .layout = codes_on_meta(kind, sizes), .beside = {mark}, .read = {}};
    weight.layout.group = state.block;
    weight.layout.scales = scales_on_meta(sizes[0], (weight.layout.in() + state.block - 1) / state.block);
    for (const char* ending : {".absmax", ".nested_absmax", ".nested_quant_map", ".quant_map"}) {
      if (files.tensors.contains(name + ending)) weight.beside.push_back(name + ending);
    }
    weight.read = [name, state, rows = sizes[0]](const io::TensorSource& tensors) { return read(tensors, name, state, rows); };
    return weight;
  }
  return std::nullopt;
}

std::optional<CodedWeight> find_rows_of_int8(const MarkedFiles& files, const std::string& name) {
  const auto layer = layer_of(name);
  const auto scale = layer + ".SCB", order = layer + ".weight_format";
  const auto& info = files.tensors.info(name);
  if (!name.ends_with(".weight") || info.dtype != at::kChar || info.shape.size() != 2 || !files.tensors.contains(scale))
    return std::nullopt;
  check_scale(files.tensors, scale, info.shape[0]);
  CodedWeight weight{.shape = info.shape, .layout = codes_on_meta(CodeKind::int8, info.shape), .beside = {scale}, .read = {}};
  weight.layout.scales = scales_on_meta(info.shape[0], 1);
  if (files.tensors.contains(order)) weight.beside.push_back(order);
  weight.read = [name, scale, order](const io::TensorSource& tensors) {
    auto codes = tensors.tensor(name);
    const auto largest = scale_in(tensors, scale, codes.size(0));
    if (tensors.contains(order) && tensors.tensor(order).to(at::kLong).abs().sum().item<int64_t>() != 0)
      data_error("models", "'{}' says that the rows of '{}' are not in their order, which is not read here; save the model anew", order,
                 name);
    return CodeTensors{codes.view(at::kByte), (largest * (1.0f / 127)).expand({codes.size(0), 1}).contiguous()};
  };
  return weight;
}

}  // namespace burnish::models
