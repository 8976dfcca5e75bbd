#include "adapters/layers_in_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "adapters/make_change.h"
#include "base/input_error.h"

namespace burnish::adapters {

namespace {

/// Parameters with a row for each of ΔW's rows; under LoKr for as many as its other factor has.
bool has_rows(std::string_view name) { return has_rows_of_change(name) || name == "lokr_w1" || name == "lokr_w1_a"; }

/// Rows of ΔW behind a row of those factors.
int64_t rows_of_row(const AdapterWeights& w) {
  int64_t rows = 1;
  for (const auto& [name, value] : w.parameters) {
    if (name == "lokr_w2" || name == "lokr_w2_a") rows = value.size(0);
  }
  return rows;
}

AdapterWeights weights_of(const Adapted& item) {
  const auto& update = item.adapter->update();
  AdapterWeights w{.path = item.path,
                   .kind = update.kind(),
                   .scale = update.scale(),
                   .magnitude = item.adapter->magnitude(),
                   .fused_rows = update.fused_rows()};
  for (const auto& [name, value] : update.parameters()) w.parameters.emplace_back(name, value.detach());
  if (w.magnitude.m.defined()) w.magnitude.m = w.magnitude.m.detach();
  return w;
}

Adapted as_item(const AdapterWeights& w, nn::LinearMap* layer) {
  auto update = std::shared_ptr<Update>(make_update(w.kind, w.parameters, w.scale, w.fused_rows));
  return {w.path, layer, std::make_shared<Adapter>(w.path, update, w.magnitude)};
}

/// Whether the parts have one adapter, and in this order.
bool share_one(const std::vector<LayerInFile>& parts) {
  int64_t row = 0;
  for (const auto& part : parts) {
    if (!part.weights || part.weights->fused_rows.count != part.rows || part.weights->fused_rows.begin != row) return false;
    auto first = [](const LayerInFile& p) { return p.weights->parameters[0].second.const_data_ptr(); };
    if (first(part) != first(parts[0])) return false;
    row += part.rows;
  }
  return true;
}

/// Tells whether two adapters differ in the factors that have ΔW's rows alone. On the meta device, where runs are planned, there are no
/// numbers: factors that train apart differ.
bool share_others(const AdapterWeights& a, const AdapterWeights& b) {
  return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), [](const auto& x, const auto& y) {
    if (x.first != y.first || has_rows(x.first)) return x.first == y.first;
    if (x.second.is_meta()) return x.second.is_same(y.second);  // without numbers, which training would have moved apart
    return x.second.scalar_type() == y.second.scalar_type() && at::equal(x.second, y.second);
  });
}

/// An adapter of some rows of a fused layer.
struct Rows {
  int64_t begin;
  AdapterWeights weights;
};

/// Returns what keeps adapters of parts from being stacked; empty when nothing does.
std::string obstacle(const std::vector<Rows>& all, int64_t num_rows, bool is_whole, bool shared) {
  auto any = [&](auto&& has) { return std::any_of(all.begin(), all.end(), [&](const auto& part) { return has(part.weights); }); };
  auto is_dora = [](const AdapterWeights& w) { return w.magnitude.m.defined(); };
  auto kind = all[0].weights.kind;
  if (any([&](const auto& w) { return w.kind != kind; })) return "adapters of several kinds";
  if (any([&](const auto& w) { return is_dora(w) && w.magnitude.axis == NormAxis::input; })) return "DoRA magnitudes over their inputs";
  if (any(is_dora) && (!is_whole || any([&](const auto& w) { return !is_dora(w); }))) return "a DoRA magnitude in some and none in others";
  if (kind == Kind::lokr && !(is_whole && shared)) return "LoKr factors of their own";
  if (kind != Kind::oft) return "";
  auto side = rank_of(all[0].weights);  // of the blocks, which stand one below the other
  auto scale = all[0].weights.scale;
  bool fits = num_rows % side == 0 && std::all_of(all.begin(), all.end(), [&](const auto& part) { return part.begin % side == 0; });
  return fits && !any([&](const auto& w) { return rank_of(w) != side || w.scale != scale; }) ? ""
                                                                                             : "rotations of other blocks or strengths";
}

/// The factors of this name, each in its rows; beside each other unless they share their columns.
at::Tensor stacked_rows(const std::vector<Rows>& all, size_t factor, int64_t num_rows, bool shared, bool with_scale) {
  std::vector<at::Tensor> values;
  int64_t num_columns = 0, column = 0;
  auto dtype = all[0].weights.parameters[factor].second.scalar_type();
  for (const auto& part : all) {
    auto value = part.weights.parameters[factor].second;
    if (with_scale) value = value.to(c10::promoteTypes(value.scalar_type(), at::kFloat)) * part.weights.scale;
    dtype = c10::promoteTypes(dtype, value.scalar_type());
    num_columns = shared ? value.size(1) : num_columns + value.size(1);
    values.push_back(value);
  }
  auto stride = rows_of_row(all[0].weights);
  auto stacked = at::zeros({num_rows / stride, num_columns}, values[0].options().dtype(dtype));
  for (size_t i = 0; i < all.size(); ++i) {
    stacked.narrow(0, all[i].begin / stride, values[i].size(0)).narrow(1, column, values[i].size(1)).copy_(values[i]);
    if (!shared) column += values[i].size(1);
  }
  return stacked;
}

/// One adapter that does what those of the parts do: where they differ in ΔW's rows alone, these stand below each other; else their factors
/// on the left stand along a diagonal, and those on the right below each other.
AdapterWeights stack(const std::vector<LayerInFile>& parts, const std::string& name, const std::string& otherwise) {
  std::vector<Rows> all;
  int64_t num_rows = 0;
  for (const auto& part : parts) {
    if (part.weights) all.push_back({num_rows, cut(*part.weights)});
    num_rows += part.rows;
  }
  auto whole = all[0].weights;
  auto every = [&](auto&& holds) { return std::all_of(all.begin(), all.end(), [&](const auto& part) { return holds(part.weights); }); };
  bool shared = every([&](const auto& w) { return share_others(w, whole); });
  if (auto what = obstacle(all, num_rows, all.size() == parts.size(), shared); !what.empty())
    config_error("adapters", "the format has '{}' as one layer, and what its parts have, {}, cannot be stacked; {}", name, what, otherwise);
  bool one_scale = every([&](const auto& w) { return w.scale == whole.scale; });
  for (size_t p = 0; p < whole.parameters.size(); ++p) {
    auto& [part_name, value] = whole.parameters[p];
    if (has_rows(part_name)) {
      value = stacked_rows(all, p, num_rows, shared, !one_scale && part_name != "hada_w2_a");
    } else if (!shared) {
      std::vector<at::Tensor> values;
      for (const auto& part : all) values.push_back(part.weights.parameters[p].second);
      value = at::cat(values);
    }
  }
  if (!one_scale) whole.scale = 1;
  if (!whole.magnitude.m.defined()) return whole;
  std::vector<at::Tensor> magnitudes;
  for (const auto& part : all) magnitudes.push_back(part.weights.magnitude.m);
  whole.magnitude.m = at::cat(magnitudes);
  return whole;
}

/// Puts adapters under the names of a program whose layers are not ours.
AdaptedList in_foreign_layers(const AdaptedList& adapted, const LayerPrefixes& names, const ForeignLayers& layers) {
  std::map<std::string, AdapterWeights> by_path;
  std::map<std::string, std::string> name_of;
  for (const auto& item : adapted) by_path[item.path] = weights_of(item);
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
    std::vector<LayerInFile> parts;
    for (const auto& path : layers.at(name)) parts.push_back({names.rows_of(path), by_path.contains(path) ? &by_path.at(path) : nullptr});
    auto whole = in_layer(name, parts, names.swapped_halves.contains(name),
                          "name the fused layer in --lora_target_modules, or give another --lora_format");
    written.push_back(as_item(whole, item.layer));
  }
  return written;
}

}  // namespace

AdapterWeights cut(AdapterWeights w) {
  auto rows = std::exchange(w.fused_rows, {});
  if (rows.count == 0) return w;
  auto stride = rows_of_row(w);
  if (rows.begin % stride != 0 || rows.count % stride != 0)
    config_error("adapters",
                 "the LoKr of '{}' is that of a fused layer and cannot be cut to its {} rows; --lora_format kohya keeps it whole", w.path,
                 rows.count);
  if (w.magnitude.m.defined() && w.magnitude.axis == NormAxis::input)
    config_error("adapters", "the DoRA of '{}' is over a fused layer's inputs, which cannot be cut; --lora_format kohya keeps it whole",
                 w.path);
  for (auto& [name, value] : w.parameters) {
    if (has_rows(name)) value = value.narrow(0, rows.begin / stride, rows.count / stride);
  }
  if (w.magnitude.m.defined()) w.magnitude.m = w.magnitude.m.narrow(0, rows.begin, rows.count);
  return w;
}

void swap_halves(AdapterWeights& w, const std::string& file) {
  auto swap = [&](at::Tensor& t, int64_t dim) {
    if (t.size(dim) % 2)
      data_error("adapters", "{}: the adapter of '{}' cannot be cut in halves, which stand in another order here", file, w.path);
    const auto half = t.size(dim) / 2;
    t = at::cat({t.narrow(dim, half, half), t.narrow(dim, 0, half)}, dim);  // a roll, which plans cannot follow
  };
  auto change = make_change(w.kind, w.parameters, w.scale);
  if (!change->splits_at(change->sides().out / 2))
    data_error("adapters", "{}: the {} of '{}' turns outputs that stand in another order here", file, kind_name(w.kind), w.path);
  for (auto& [name, tensor] : w.parameters) {
    if (has_rows_of_change(name) || name == "lokr_w1" || name == "lokr_w1_a") swap(tensor, 0);
    if (name == "row_rotation") swap(tensor, 1);
  }
  if (w.magnitude.m.defined() && w.magnitude.axis == NormAxis::output) swap(w.magnitude.m, 0);
}

AdapterWeights in_layer(const std::string& name, const std::vector<LayerInFile>& parts, bool swapped_halves, const std::string& otherwise) {
  AdapterWeights whole;
  if (parts.size() == 1) whole = cut(*parts[0].weights);
  else if (share_one(parts)) (whole = *parts[0].weights).fused_rows = {};
  else whole = stack(parts, name, otherwise);
  whole.path = name;
  if (swapped_halves) swap_halves(whole, name);
  return whole;
}

AdaptedList in_layout(const AdaptedList& adapted, const LayerPrefixes& names, Layout layout) {
  if (layout == Layout::diffsynth && !names.diffsynth) {
    if (names.diffsynth_layers.empty() && !adapted.empty())
      config_error("adapters", "--lora_format diffsynth has no names for the layer '{}'; take diffusers or kohya", adapted[0].path);
    return in_foreign_layers(adapted, names, names.diffsynth_layers);
  }
  if (layout == Layout::diffusers && !names.diffusers_layers.empty()) return in_foreign_layers(adapted, names, names.diffusers_layers);
  if (layout == Layout::kohya && !names.kohya_layers.empty()) return in_foreign_layers(adapted, names, names.kohya_layers);
  const bool has_dots = layout == Layout::diffusers || layout == Layout::diffsynth;
  const bool is_onetrainers = layout == Layout::onetrainer && !names.onetrainer.empty();
  const auto& prefix = layout == Layout::diffusers   ? names.diffusers
                       : layout == Layout::diffsynth ? *names.diffsynth
                       : layout == Layout::lycoris   ? names.lycoris
                       : is_onetrainers              ? names.onetrainer
                                                     : names.kohya;
  AdaptedList written;
  for (const auto& item : adapted) {
    auto path = item.path;
    if (!has_dots) std::replace(path.begin(), path.end(), '.', '_');
    auto own = cut(weights_of(item));
    own.path = prefix + path;
    written.push_back(as_item(own, item.layer));
  }
  return written;
}

}  // namespace burnish::adapters
