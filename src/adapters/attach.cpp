#include "adapters/attach.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>

#include "adapters/fresh.h"
#include "adapters/lokr.h"
#include "adapters/make_change.h"
#include "base/choice.h"
#include "base/input_error.h"
#include "base/random_key.h"

namespace burnish::adapters {

namespace {

const std::vector<std::string> kTypes{"lora", "dora", "loha", "lokr", "oft", "full"};
const auto kFp32 = at::TensorOptions().dtype(at::kFloat);

double alpha_of(const AdapterOptions& o) { return o.alpha > 0 ? o.alpha : static_cast<double>(o.rank); }

double scale_of(const AdapterOptions& o) {
  auto rank = static_cast<double>(o.rank);
  return alpha_of(o) / (o.use_rslora ? std::sqrt(rank) : rank);
}

struct Start {
  Parameters parameters;
  double scale;
};

/// Chooses the start of a layer with `out` rows and `in` columns, of which `area` belong to an input channel.
Start start_of(const AdapterOptions& o, int64_t out, int64_t in, int64_t area, Fresh fresh) {
  switch (kind_of_type(o.type)) {
    case Kind::lora: return {{{"lora_A.weight", fresh.kaiming(o.rank, in)}, {"lora_B.weight", fresh.zeros(out, o.rank)}}, scale_of(o)};
    case Kind::loha:
      return {{{"hada_w1_a", fresh.normal(out, o.rank, 0.1)},
               {"hada_w1_b", fresh.normal(o.rank, in, 1)},
               {"hada_w2_a", fresh.zeros(out, o.rank)},
               {"hada_w2_b", fresh.normal(o.rank, in, 1)}},
              scale_of(o)};
    case Kind::full: return {{{"diff", fresh.zeros(out, in)}}, 1.0};
    case Kind::oft: return {{{"oft_blocks", fresh.zeros(out, lokr_split(out, o.rank).first)}}, 1.0};
    default: break;
  }
  auto [out_1, out_2] = lokr_split(out, o.lokr_factor);
  auto [in_1, in_2] = lokr_split(in / area, o.lokr_factor);
  Parameters parameters{{"lokr_w1", fresh.kaiming(out_1, in_1)}};
  if (is_whole_lokr(o.rank, out_2, in_2)) {
    parameters.emplace_back("lokr_w2", fresh.zeros(out_2, in_2 * area));
    return {parameters, 1.0};
  }
  parameters.emplace_back("lokr_w2_a", fresh.kaiming(out_2, o.rank));
  parameters.emplace_back("lokr_w2_b", fresh.zeros(o.rank, in_2 * area));
  return {parameters, scale_of(o)};
}

/// Parameters made of an adapter's tensors; of a tensor that several entries share one. They lie on `device`, or where they are asked for.
class SharedParameters {
 public:
  explicit SharedParameters(std::optional<c10::Device> device = {}) : device_(device) {}
  Parameters of(const Parameters& parameters, c10::Device device) {
    Parameters own;
    for (const auto& [name, value] : parameters) own.emplace_back(name, of(value, device));
    return own;
  }
  at::Tensor of(const at::Tensor& value, c10::Device device) {
    auto& own = own_[value.unsafeGetTensorImpl()];
    if (!own.defined()) own = value.to(kFp32.device(device_.value_or(device)), false, /*copy=*/true).contiguous().requires_grad_(true);
    return own;
  }

 private:
  std::optional<c10::Device> device_;
  std::map<const c10::TensorImpl*, at::Tensor> own_;
};

std::shared_ptr<Adapter> adapter_of(const AdapterWeights& w, const nn::LinearMap& layer, const std::shared_ptr<const Dropout>& dropout,
                                    SharedParameters& trained) {
  auto device = layer.source().device();
  auto magnitude = w.magnitude;
  if (magnitude.m.defined()) magnitude.m = trained.of(magnitude.m, device);
  auto update = std::shared_ptr<Update>(make_update(w.kind, trained.of(w.parameters, device), w.scale, w.fused_rows));
  if (!update) throw std::logic_error("an adapter that cannot be trained");
  return std::make_shared<Adapter>(w.path, update, magnitude, dropout);
}

/// Magnitudes over the inputs of a fused layer are held against norms of all its parts.
void share_norms(const AdaptedList& adapted) {
  std::map<const c10::TensorImpl*, std::vector<Norms::NormedLayer>> parts;
  auto is_shared = [](const Adapter& a) {
    return a.is_dora() && a.magnitude().axis == NormAxis::input && a.update().fused_rows().count > 0;
  };
  for (const auto& item : adapted) {
    const auto& a = *item.adapter;
    if (is_shared(a)) parts[a.magnitude().m.unsafeGetTensorImpl()].push_back({item.layer, a.added_update()});
  }
  std::map<const c10::TensorImpl*, std::shared_ptr<Norms>> norms;
  for (const auto& [m, of_m] : parts) norms[m] = std::make_shared<Norms>(of_m, NormAxis::input);
  for (const auto& item : adapted) {
    if (is_shared(*item.adapter)) item.adapter->share_norms(norms.at(item.adapter->magnitude().m.unsafeGetTensorImpl()));
  }
}

using LayerTable = std::map<std::string, nn::LinearMap*>;

AdaptedList hang(const std::vector<AdapterWeights>& weights, const LayerTable& table, const std::shared_ptr<const Dropout>& dropout,
                 std::optional<c10::Device> device = {}) {
  SharedParameters trained(device);
  AdaptedList adapted;
  for (const auto& w : weights) adapted.push_back({w.path, table.at(w.path), adapter_of(w, *table.at(w.path), dropout, trained)});
  share_norms(adapted);
  for (const auto& item : adapted) {
    item.adapter->prepare(*item.layer);
    item.layer->delta = item.adapter;
  }
  return adapted;
}

std::shared_ptr<const Change> change_of(const AdapterWeights& w, c10::Device device) {
  Parameters parameters;
  for (const auto& [name, value] : w.parameters) parameters.emplace_back(name, value.to(kFp32.device(device)));
  return make_change(w.kind, std::move(parameters), w.scale, w.fused_rows);
}

LayerTable layer_table(nn::Module& root) {
  auto layers = all_layers(root);
  return {layers.begin(), layers.end()};
}

/// ‖W‖ by channels of layers that are stacked.
at::Tensor norms_of_stacked(const std::vector<std::string>& paths, const LayerTable& table, NormAxis axis) {
  std::vector<at::Tensor> squared;
  for (const auto& path : paths) {
    const auto& layer = *table.at(path);
    squared.push_back(by_channel(squared_norms(layer.source(), axis), layer, axis));
  }
  return (axis == NormAxis::output ? at::cat(squared) : at::stack(squared).sum(0)).sqrt_();
}

}  // namespace

const std::vector<std::string>& adapter_types() { return kTypes; }

Kind kind_of_type(const std::string& type) {
  for (auto kind : {Kind::loha, Kind::lokr, Kind::oft, Kind::full}) {
    if (kind_name(kind) == type) return kind;
  }
  return Kind::lora;
}

void check(const AdapterOptions& o) {
  if (std::find(kTypes.begin(), kTypes.end(), o.type) == kTypes.end()) unknown_choice("adapters", "lora_type", o.type, kTypes);
  if (o.rank < 1) config_error("adapters", "lora_rank must be at least 1, not {}", o.rank);
  bool has_scale = o.type != "oft" && o.type != "full";
  if (!has_scale && (o.alpha > 0 || o.use_rslora))
    config_error("adapters", "{} means nothing to lora_type {}, which has no scale; take it out", o.alpha > 0 ? "lora_alpha" : "use_rslora",
                 o.type);
  if (o.dropout < 0 || o.dropout >= 1) config_error("adapters", "lora_dropout must be at least 0 and below 1, not {}", o.dropout);
  if (o.lokr_factor < 1 && o.lokr_factor != -1) config_error("adapters", "lokr_factor must be at least 1, or -1, not {}", o.lokr_factor);
}

const std::vector<std::string>& norm_axes() {
  static const std::vector<std::string> kAxes{"output", "input"};
  return kAxes;
}

NormAxis parse_norm_axis(std::string_view name) {
  if (name == "output") return NormAxis::output;
  if (name == "input") return NormAxis::input;
  unknown_choice("adapters", "dora_norm", name, norm_axes());
}

std::vector<std::string> parameter_names(const AdapterOptions& options) {
  auto small = options;
  small.rank = 1;
  std::vector<std::string> names;
  auto start = start_of(small, 64, 64, 1, {at::detail::createCPUGenerator(0)});
  for (const auto& [name, value] : start.parameters) names.push_back(name);
  if (options.type == "lokr") names.emplace_back("lokr_w2");  // of layers whose second factor is whole
  if (options.type == "dora") names.emplace_back("lora_magnitude_vector");
  return names;
}

std::pair<int64_t, int64_t> lokr_split(int64_t side, int64_t factor) {
  if (factor > 0 && side % factor == 0) return std::minmax(factor, side / factor);
  int64_t best = 1;
  for (int64_t part = 1; part * part <= side && (factor < 0 || part <= factor); ++part) {
    if (side % part == 0) best = part;
  }
  return {best, side / best};
}

AdaptedList attach(nn::Module& root, const AdapterOptions& options, const std::vector<std::string>& paths, uint64_t seed,
                   const std::shared_ptr<const Dropout>& dropout) {
  check(options);
  return attach(
      root, [&](const std::string&) { return options; }, paths, seed, dropout);
}

namespace {

/// A fresh adapter of layers that are stacked to one, or of one alone.
std::vector<AdapterWeights> fresh_weights(const AdapterOptions& options, const std::vector<std::string>& paths, const LayerTable& table,
                                          uint64_t seed) {
  check(options);
  int64_t rows = 0;
  for (const auto& path : paths) {
    if (!table.contains(path)) throw std::logic_error("no layer '" + path + "' to hang an adapter on");
    rows += table.at(path)->out_features();
  }
  const auto& first = *table.at(paths[0]);
  Fresh fresh;
  if (!first.source().device().is_meta()) fresh.generator = at::make_generator<at::CPUGeneratorImpl>(seed ^ mix64(paths[0]));
  auto start = start_of(options, rows, first.in_features(), first.product()->columns_per_channel(), fresh);
  Magnitude magnitude{{}, options.dora_norm};
  if (options.type == "dora") magnitude.m = norms_of_stacked(paths, table, options.dora_norm);
  auto kind = kind_of_type(options.type);
  auto change = make_change(kind, start.parameters, start.scale);
  std::vector<AdapterWeights> weights;
  int64_t row = 0;
  for (const auto& path : paths) {
    auto count = table.at(path)->out_features();
    if (!change->splits_at(row))
      config_error(
          "adapters",
          "the blocks of {} outputs that lora_type {} has here reach over the border of '{}', which is a part of a fused layer; give "
          "a lora_rank that divides its {} outputs, or name the single layers in lora_target_modules",
          change->rank(), options.type, path, count);
    weights.push_back({.path = path,
                       .kind = kind,
                       .parameters = start.parameters,
                       .scale = start.scale,
                       .magnitude = magnitude,
                       .fused_rows = paths.size() > 1 ? RowRange{row, count} : RowRange{}});
    row += count;
  }
  return weights;
}

}  // namespace

AdaptedList attach(nn::Module& root, const OptionsOf& options_of, const std::vector<std::string>& paths, uint64_t seed,
                   const std::shared_ptr<const Dropout>& dropout, const std::vector<std::vector<std::string>>& fused,
                   std::optional<c10::Device> device) {
  auto table = layer_table(root);
  std::map<std::string, const std::vector<std::string>*> fused_of;
  for (const auto& group : fused) {
    for (const auto& path : group) fused_of[path] = &group;
  }
  AdaptedList adapted;
  for (const auto& path : paths) {
    auto group = fused_of.contains(path) ? *fused_of.at(path) : std::vector<std::string>{path};
    if (group[0] != path) continue;  // its first layer brings the others with it
    auto some = hang(fresh_weights(options_of(path), group, table, seed), table, dropout, device);
    adapted.insert(adapted.end(), some.begin(), some.end());
  }
  return adapted;
}

int64_t rank_of(const AdapterWeights& weights) { return make_change(weights.kind, weights.parameters, weights.scale)->rank(); }

std::string parameter_of(const AdapterWeights& weights) { return weights.path + (weights.target.empty() ? "" : "." + weights.target); }

namespace {

[[noreturn]] void of_another_model(const std::string& file_name, const AdapterWeights& w, size_t num_more) {
  data_error("adapters", "{} is a LoRA for another model: it adapts '{}' (and {} more), and this model has no such layer", file_name,
             w.path, num_more);
}

/// Returns which weights an entry fits: by its own rows where its parameters are those of a fused layer.
Sides own_sides(const AdapterWeights& w, Sides sides) {
  if (w.fused_rows.count > 0 && sides.out >= 0) sides.out = std::clamp(sides.out - w.fused_rows.begin, int64_t{0}, w.fused_rows.count);
  return sides;
}

void check_layer(const nn::LinearMap& layer, const AdapterWeights& w, const std::string& file_name) {
  auto all_sides = make_change(w.kind, w.parameters, w.scale)->sides(), sides = own_sides(w, all_sides);
  auto differ = [](int64_t wanted, int64_t there) { return wanted >= 0 && wanted != there; };
  if (differ(sides.out, layer.out_features()) || differ(sides.in, layer.in_features()) || differ(sides.in_channels, layer.in_channels())) {
    auto text = [](int64_t side) { return side < 0 ? std::string("any number of") : std::to_string(side); };
    data_error("adapters", "{} is a LoRA for another model: '{}' maps {} to {} features there, {} to {} here", file_name, w.path,
               text(sides.in_channels >= 0 && sides.in < 0 ? sides.in_channels : sides.in), text(sides.out), layer.in_features(),
               layer.out_features());
  }
  auto magnitudes = w.magnitude.axis == NormAxis::output ? all_sides.out : layer.in_channels();
  if (w.magnitude.m.defined() && w.magnitude.m.numel() != magnitudes)
    data_error("adapters", "{}: the DoRA magnitude of '{}' has {} numbers instead of {}", file_name, w.path, w.magnitude.m.numel(),
               magnitudes);
}

/// A bias, the weight of a norm, or a table.
void check_vector(const at::Tensor& vector, const AdapterWeights& w, const std::string& file_name) {
  auto sides = own_sides(w, make_change(w.kind, w.parameters, w.scale)->sides());
  const bool is_table = w.target.empty();
  if ((vector.dim() != 1 && !is_table) || sides.out != vector.numel() || (sides.in >= 0 && sides.in != 1)) {
    data_error("adapters", "{} is a LoRA for another model: the {} of '{}' has {} numbers there, {} here", file_name,
               is_table ? "table" : w.target, w.path, sides.out, vector.numel());
  }
}

}  // namespace

void check_fit(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name) {
  auto layers = layer_table(root);
  auto parameters = root.parameters();
  for (const auto& w : weights) {
    auto layer = layers.find(w.path);
    if (layer != layers.end() && w.target == "weight") {
      check_layer(*layer->second, w, file_name);
      continue;
    }
    auto found = parameters.find(parameter_of(w));
    if (found == parameters.end() && layer != layers.end())
      data_error("adapters", "{} changes the bias of '{}', and that layer has none here", file_name, w.path);
    if (found == parameters.end()) of_another_model(file_name, w, weights.size() - 1);
    check_vector(*found->second, w, file_name);
  }
}

void check_trainable(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name) {
  auto layers = layer_table(root);
  for (const auto& w : weights) {
    bool is_weight = layers.contains(w.path) && w.target == "weight";
    if (is_weight && make_update(w.kind, w.parameters, w.scale)) continue;
    auto what = is_weight            ? std::string(kind_name(w.kind))
                : w.target == "bias" ? "a change of its bias"
                : w.target.empty()   ? "a change of a table"
                                     : "a change of a norm";
    data_error("adapters", "{} cannot be trained further: for '{}' it has {}, which can only be merged (preset_lora_path)", file_name,
               w.path, what);
  }
}

AdaptedList attach_weights(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name,
                           const std::shared_ptr<const Dropout>& dropout) {
  check_fit(root, weights, file_name);
  check_trainable(root, weights, file_name);
  return hang(weights, layer_table(root), dropout);
}

std::vector<AdapterWeights> sharing_norms(const AdapterWeights& entry, const std::vector<AdapterWeights>& all) {
  std::vector<AdapterWeights> others;
  if (!entry.magnitude.m.defined() || entry.magnitude.axis != NormAxis::input || entry.fused_rows.count == 0) return others;
  for (const auto& other : all) {
    if (other.path != entry.path && other.magnitude.m.is_same(entry.magnitude.m)) others.push_back(other);
  }
  return others;
}

/// With the product in numbers, where a bias gets one of its layer's weight.
static AdapterWeights with_product(AdapterWeights w, const std::function<at::Tensor(const std::string&)>& weight_of) {
  auto factor = std::find_if(w.parameters.begin(), w.parameters.end(), [](const auto& p) { return p.first == "of_weight"; });
  if (factor == w.parameters.end()) return w;
  auto c = factor->second;
  w.parameters.erase(factor);
  auto rows = std::exchange(w.fused_rows, {});
  auto& diff = w.parameters.at(0).second;
  auto weight = weight_of(w.path);
  diff = (rows.count > 0 ? diff.narrow(0, rows.begin, rows.count) : diff).to(weight.device()) + at::mm(weight, c.to(weight.device()));
  return w;
}

void merge(nn::LinearMap& layer, const std::vector<WeightsAtStrength>& all,
           const std::function<at::Tensor(const std::string&)>& weight_of) {
  std::vector<Strong> changes;
  std::deque<nn::LinearMap> others;  // stay where they are
  for (auto [weights, strength, sharing] : all) {
    weights = with_product(std::move(weights), weight_of);
    bool is_dora = weights.magnitude.m.defined();
    double factor = 1;  // of the scale; strength is what else there is
    if (!is_dora || weights.magnitude.strength == DoraStrength::update) std::swap(factor, strength);
    weights.scale *= factor;
    if (!is_dora) {
      changes.emplace_back(change_of(weights, layer.source().device()));
      continue;
    }
    SharedParameters trained;
    auto adapter = adapter_of(weights, layer, nullptr, trained);
    changes.emplace_back(adapter, strength);
    if (sharing.empty()) continue;
    std::vector<Norms::NormedLayer> parts{{&layer, adapter->added_update()}};
    for (auto& other : sharing) {
      other.scale *= factor;
      parts.push_back({&others.emplace_back(weight_of(other.path), layer.product()),
                       adapter_of(other, others.back(), nullptr, trained)->added_update()});
    }
    adapter->share_norms(std::make_shared<Norms>(parts, NormAxis::input));
  }
  merge_into(layer, changes);
}

}  // namespace burnish::adapters
