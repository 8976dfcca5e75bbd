#include "models/files/grouped_codes.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "base/input_error.h"
#include "models/files/comfy_weights.h"

namespace burnish::models {

namespace {

constexpr double kMostLevel = 127, kZeroOfSixBits = 32;
constexpr int64_t kTable = 16;

/// The names of what lies beside a weight.
struct Beside {
  explicit Beside(const std::string& weight) : of_groups(weight + "_s_rel"), of_rows(weight + "_s_channel"), table(weight + "_codebook") {}
  std::string of_groups, of_rows, table;
};

/// Codes [rows, columns] of bytes, whose first number is in the low half; of six bits, the upper two of each four lie behind all of these.
at::Tensor codes_of(const at::Tensor& bytes, int64_t columns) {
  const auto halves = bytes.narrow(1, 0, columns / 2);
  auto codes = at::stack({halves.bitwise_and(15), halves.bitwise_right_shift(4)}, -1).flatten(1);
  if (bytes.size(1) == columns / 2) return codes;
  const auto quarters = bytes.slice(1, columns / 2);
  std::vector<at::Tensor> upper;
  for (int64_t i = 0; i < 4; ++i) upper.push_back(quarters.bitwise_right_shift(2 * i).bitwise_and(3).bitwise_left_shift(4));
  return codes.add_(at::stack(upper, -1).flatten(1));
}

}  // namespace

std::optional<CodedWeight> find_grouped(const MarkedFiles& files, const std::string& name) {
  const auto& tensors = files.tensors;
  const auto* mark = files.mark_of(name);
  const auto& info = tensors.info(name);
  const Beside beside(name);
  const bool is_one = mark && format_of(*mark) == "asym_w4a8_int8" && info.dtype == at::kChar && info.shape.size() == 2 &&
                      info.shape[0] > 0 && tensors.contains(beside.of_groups) && tensors.contains(beside.of_rows);
  if (!is_one || tensors.contains(name + "_correction")) return std::nullopt;
  const auto& scales = tensors.info(beside.of_groups);
  const auto said = mark->value("group_size", nlohmann::json(16));
  const auto group = said.is_number_integer() ? said.get<int64_t>() : 0;
  const auto rows = info.shape[0], columns = scales.shape.size() == 2 && group > 0 ? scales.shape[1] * group : 0;
  const bool has_table = tensors.contains(beside.table);
  const auto bits = columns > 0 ? 8 * info.shape[1] / columns : 0;
  const bool fits = columns % 4 == 0 && bits == (has_table ? 4 : 6) && bits * columns == 8 * info.shape[1] && scales.shape[0] == rows &&
                    (scales.dtype == at::kFloat8_e4m3fn || scales.dtype == at::kByte) &&
                    (!has_table || tensors.info(beside.table).shape == std::vector<int64_t>{kTable});
  if (!fits)
    data_error("models",
               "'{}' has not one scale for each {} numbers of the rows of '{}', or another table than one of {}; its file is damaged",
               beside.of_groups, said.dump(), name, kTable);
  check_scale(tensors, beside.of_rows, rows);
  CodedWeight weight{.shape = {rows, columns}, .layout = codes_on_meta(CodeKind::int8_convrot, {rows, columns}), .read = {}};
  weight.layout.rotation = rotation_in(*mark, name, columns);
  weight.layout.scales = scales_on_meta(rows, 1);
  weight.beside = {beside.of_groups, beside.of_rows};
  if (has_table) weight.beside.push_back(beside.table);
  weight.read = [=](const io::TensorSource& source) {
    const auto codes = codes_of(source.tensor(name).contiguous().view(at::kByte), columns);
    auto numbers = has_table
                       ? source.tensor(beside.table).to(at::kFloat).index_select(0, codes.flatten().to(at::kInt)).view({rows, columns})
                       : codes.to(at::kFloat) - kZeroOfSixBits;
    auto of_groups = source.tensor(beside.of_groups).contiguous().view(at::kFloat8_e4m3fn).to(at::kFloat);
    auto levels = numbers.mul_(of_groups.repeat_interleave(group, 1)).clamp_(-kMostLevel, kMostLevel).round_();
    return CodeTensors{levels.to(at::kChar).view(at::kByte), scale_in(source, beside.of_rows, rows)};
  };
  return weight;
}

}  // namespace burnish::models
