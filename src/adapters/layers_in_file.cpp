#include "adapters/layers_in_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace burnish::adapters {

namespace {

/// Factors whose rows are those of ΔW.
bool has_rows_of_update(std::string_view name) { return name == "lora_B.weight" || name == "hada_w1_a" || name == "hada_w2_a"; }

AdapterWeights weights_of(const Adapted& item) {
  const auto& update = item.adapter->update();
  AdapterWeights w{item.path, update.kind(), {}, update.scale(), item.adapter->magnitude(), update.fused_rows()};
  for (const auto& [name, value] : update.parameters()) w.parameters.emplace_back(name, value.detach());
  if (w.magnitude.m.defined()) w.magnitude.m = w.magnitude.m.detach();
  return w;
}

Adapted as_item(const AdapterWeights& w, nn::LinearMap* layer) {
  auto update = std::shared_ptr<Update>(make_update(w.kind, w.parameters, w.scale, w.fused_rows));
  return {w.path, layer, std::make_shared<Adapter>(w.path, update, w.magnitude)};
}

/// An adapter of its rows alone.
AdapterWeights cut(AdapterWeights w) {
  auto rows = std::exchange(w.fused_rows, {});
  if (rows.count == 0) return w;
  int64_t stride = 1;  // rows of ΔW behind a row of the factor that is cut
  for (const auto& [name, value] : w.parameters) {
    if (name == "lokr_w2" || name == "lokr_w2_a") stride = value.size(0);
  }
  if (rows.begin % stride != 0 || rows.count % stride != 0)
    config_error("adapters",
                 "the LoKr of '{}' is that of a fused layer and cannot be cut to its {} rows; --lora_format kohya keeps it whole", w.path,
                 rows.count);
  if (w.magnitude.m.defined() && w.magnitude.axis == NormAxis::input)
    config_error("adapters", "the DoRA of '{}' is over a fused layer's inputs, which cannot be cut; --lora_format kohya keeps it whole",
                 w.path);
  for (auto& [name, value] : w.parameters) {
    if (has_rows_of_update(name) || name == "lokr_w1" || name == "lokr_w1_a")
      value = value.narrow(0, rows.begin / stride, rows.count / stride);
  }
  if (w.magnitude.m.defined()) w.magnitude.m = w.magnitude.m.narrow(0, rows.begin, rows.count);
  return w;
}

/// A layer of a fused one, and its adapter if it has one.
struct Part {
  int64_t rows;
  const Adapted* item = nullptr;
};

/// Whether the parts have one adapter, and in this order.
bool share_one(const std::vector<Part>& parts) {
  int64_t row = 0;
  for (const auto& part : parts) {
    if (!part.item) return false;
    const auto& update = part.item->adapter->update();
    if (update.fused_rows().count != part.rows || update.fused_rows().begin != row) return false;
    if (!update.parameters()[0].second.is_same(parts[0].item->adapter->update().parameters()[0].second)) return false;
    row += part.rows;
  }
  return true;
}

/// One adapter that does what those of the parts do: their factors on the left stand along a diagonal, those on the right below each other.
AdapterWeights stack(const std::vector<Part>& parts, const std::string& name) {
  std::vector<std::pair<int64_t, AdapterWeights>> all;  // by their first row
  int64_t num_rows = 0;
  for (const auto& part : parts) {
    if (part.item) all.emplace_back(num_rows, cut(weights_of(*part.item)));
    num_rows += part.rows;
  }
  auto whole = all[0].second;
  whole.path = name;
  bool is_dora = whole.magnitude.m.defined(), by_input = is_dora && whole.magnitude.axis == NormAxis::input;
  if (whole.kind == Kind::lokr || by_input || (is_dora && all.size() < parts.size()))
    config_error(
        "adapters",
        "kohya's '{}' is a fused layer, and the {} of '{}' cannot be stacked with that of its other parts; name the fused layer in "
        "--lora_target_modules, or give another --lora_format",
        name, is_dora ? "DoRA" : "LoKr", all[0].second.path);
  bool one_scale = std::all_of(all.begin(), all.end(), [&](const auto& part) { return part.second.scale == whole.scale; });
  for (size_t p = 0; p < whole.parameters.size(); ++p) {
    std::vector<at::Tensor> values;
    for (const auto& [row, w] : all) values.push_back(w.parameters[p].second);
    auto& [part_name, stacked] = whole.parameters[p];
    if (!has_rows_of_update(part_name)) {
      stacked = at::cat(values);
      continue;
    }
    int64_t num_columns = 0, column = 0;
    for (const auto& value : values) num_columns += value.size(1);
    stacked = at::zeros({num_rows, num_columns}, values[0].options());
    for (size_t i = 0; i < all.size(); ++i) {
      auto scale = one_scale || p > 1 ? 1.0 : all[i].second.scale;
      stacked.narrow(0, all[i].first, values[i].size(0)).narrow(1, column, values[i].size(1)).copy_(values[i] * scale);
      column += values[i].size(1);
    }
  }
  if (!one_scale) whole.scale = 1;
  if (!is_dora) return whole;
  std::vector<at::Tensor> magnitudes;
  for (const auto& [row, w] : all) magnitudes.push_back(w.magnitude.m);
  whole.magnitude.m = at::cat(magnitudes);
  return whole;
}

/// Under the names of a program whose layers are not ours.
AdaptedList in_foreign_layers(const AdaptedList& adapted, const LayerPrefixes& names, const ForeignLayers& layers) {
  std::map<std::string, const Adapted*> by_path;
  std::map<std::string, std::string> name_of;
  for (const auto& item : adapted) by_path[item.path] = &item;
  for (const auto& [name, ours] : layers) {
    for (const auto& path : ours) name_of[path] = name;
  }
  AdaptedList written;
  std::set<std::string> done;
  for (const auto& item : adapted) {
    if (!name_of.contains(item.path))
      config_error("adapters", "this --lora_format has no name for the layer '{}'; take another", item.path);
    const auto& name = name_of.at(item.path);
    if (!done.insert(name).second) continue;
    std::vector<Part> parts;
    for (const auto& path : layers.at(name)) parts.push_back({names.rows_of(path), by_path.contains(path) ? by_path.at(path) : nullptr});
    AdapterWeights whole;
    if (parts.size() == 1) whole = cut(weights_of(item));
    else if (!share_one(parts)) whole = stack(parts, name);
    else (whole = weights_of(item)).fused_rows = {};
    whole.path = name;
    if (names.swapped_halves.contains(name)) swap_halves(whole, name);
    written.push_back(as_item(whole, item.layer));
  }
  return written;
}

}  // namespace

bool any_fused(const AdaptedList& adapted) {
  return std::any_of(adapted.begin(), adapted.end(), [](const auto& item) { return item.adapter->update().fused_rows().count > 0; });
}

AdaptedList in_layout(const AdaptedList& adapted, const LayerPrefixes& names, Layout layout) {
  if (layout == Layout::diffsynth) {
    if (names.diffsynth_layers.empty() && !adapted.empty())
      config_error("adapters", "--lora_format diffsynth has no names for the layer '{}'; take diffusers or kohya", adapted[0].path);
    return in_foreign_layers(adapted, names, names.diffsynth_layers);
  }
  if (layout == Layout::kohya && !names.kohya_layers.empty()) return in_foreign_layers(adapted, names, names.kohya_layers);
  AdaptedList written;
  for (const auto& item : adapted) {
    auto path = item.path;
    if (layout != Layout::diffusers) std::replace(path.begin(), path.end(), '.', '_');
    auto own = cut(weights_of(item));
    own.path = (layout == Layout::diffusers ? names.diffusers : layout == Layout::lycoris ? names.lycoris : names.kohya) + path;
    written.push_back(as_item(own, item.layer));
  }
  return written;
}

}  // namespace burnish::adapters
