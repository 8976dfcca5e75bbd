#include "adapters/adapter_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensordot.h>

#include <algorithm>
#include <optional>

#include "adapters/adapter_config.h"
#include "adapters/layers_in_file.h"
#include "base/choice.h"
#include "base/error.h"
#include "base/log.h"

namespace burnish::adapters {

namespace {

const std::string kMagnitude = "magnitude", kDoraScale = "dora_scale", kAlpha = "alpha";

/// How a key ends.
struct Ending {
  std::string text;
  std::string part;        ///< what we call the part
  size_t num_of_name = 0;  ///< how much of it belongs to the layer's name
};

/// Longest first where one ends in another.
const std::vector<Ending>& endings() {
  static const auto all = [] {
    std::vector<Ending> list;
    auto factors = [&](const std::string& down, const std::string& up, size_t num_of_name = 0) {
      list.push_back({down, "lora_A.weight", num_of_name});
      list.push_back({up, "lora_B.weight", num_of_name});
    };
    factors(".lora_A.weight", ".lora_B.weight");
    factors(".lora_A.default.weight", ".lora_B.default.weight");
    for (const char* start : {".lora_", ".lora.", ".lora_linear_layer."})
      factors(std::string(start) + "down.weight", std::string(start) + "up.weight");
    // Old diffusers and XLabs, whose layers are called "….processor.to_q_lora" and "….processor.qkv_lora1".
    for (const std::string name : {"_lora", "_lora1", "_lora2"}) factors(name + ".down.weight", name + ".up.weight", name.size());
    for (const char* m : {".lora_magnitude_vector", ".lora_magnitude_vector.weight", ".lora_magnitude_vector.default",
                          ".lora_magnitude_vector.default.weight"})
      list.push_back({m, kMagnitude});
    list.push_back({".dora_scale", kDoraScale});
    list.push_back({".alpha", kAlpha});
    for (const char* part : {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2",
                             "lokr_w2_a", "lokr_w2_b", "lora_mid.weight", "hada_t1", "hada_t2", "lokr_t2"})
      list.push_back({std::string(".") + part, part});
    return list;
  }();
  return all;
}

struct Key {
  std::string layer, part;
};

std::optional<Key> split_key(const std::string& key) {
  for (const auto& ending : endings()) {
    if (key.ends_with(ending.text)) return Key{key.substr(0, key.size() - ending.text.size() + ending.num_of_name), ending.part};
  }
  return std::nullopt;
}

bool ends_with_any(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

/// Deltas beside an adapter's that change nothing.
bool is_zero_delta(const io::TensorSource& source, const std::string& name) {
  return ends_with_any(name, {".diff", ".diff_b", ".lora_B.bias", ".lora_up.bias"}) && !source.tensor(name).any().item<bool>();
}

std::string without_prefix(const std::string& name) {
  for (const char* prefix : {"base_model.model.", "transformer.", "model.diffusion_model.", "diffusion_model.", "pipe.dit.", "dit."}) {
    if (name.starts_with(prefix)) return name.substr(std::string_view(prefix).size());
  }
  const std::string twice = "lora_unet__";  // some programs put the separator behind the prefix too
  return name.starts_with(twice) ? "lora_unet_" + name.substr(twice.size()) : name;
}

using Parts = std::map<std::string, at::Tensor>;

void require(const Parts& parts, std::initializer_list<const char*> names, const std::string& file, const std::string& layer) {
  for (const char* name : names) {
    if (!parts.contains(name)) data_error("adapters", "{}: the adapter of '{}' lacks its {}", file, layer, name);
  }
}

void check_factor(const Parts& parts, const std::string& name, const std::string& file, const std::string& layer) {
  if (!parts.contains(name)) require(parts, {(name + "_a").c_str(), (name + "_b").c_str()}, file, layer);
}

/// The product of these two must be possible.
void check_rank(const Parts& parts, const std::string& left, const std::string& right, const std::string& file, const std::string& layer) {
  if (parts.contains(left) && parts.contains(right) && parts.at(left).size(1) != parts.at(right).size(0)) {
    data_error("adapters", "{}: the adapter of '{}' has rank {} in {} and {} in {}", file, layer, parts.at(right).size(0), right,
               parts.at(left).size(1), left);
  }
}

Kind kind_of(const Parts& parts, const std::string& file, const std::string& layer) {
  auto any = [&](std::string_view start) {
    return std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.first.starts_with(start); });
  };
  if (any("hada_")) {
    require(parts, {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"}, file, layer);
    check_rank(parts, "hada_w1_a", "hada_w1_b", file, layer);
    check_rank(parts, "hada_w2_a", "hada_w2_b", file, layer);
    return Kind::loha;
  }
  if (any("lokr_")) {
    check_factor(parts, "lokr_w1", file, layer);
    check_factor(parts, "lokr_w2", file, layer);
    check_rank(parts, "lokr_w1_a", "lokr_w1_b", file, layer);
    check_rank(parts, "lokr_w2_a", "lokr_w2_b", file, layer);
    return Kind::lokr;
  }
  require(parts, {"lora_A.weight", "lora_B.weight"}, file, layer);
  check_rank(parts, "lora_B.weight", "lora_A.weight", file, layer);
  return Kind::lora;
}

/// alpha / rank, by the layer's own alpha or else by the settings beside the tensors; 1 where nothing is said. LoKr with two whole factors
/// has no rank and ignores its own alpha, as LyCORIS does.
double scale_of(const Parts& parts, Kind kind, const std::optional<LayerConfig>& said, const std::string& file, const std::string& layer) {
  int64_t rank = 0;
  for (const char* name : {"lora_A.weight", "hada_w1_b", "lokr_w1_b", "lokr_w2_b"}) {
    if (parts.contains(name)) rank = parts.at(name).size(0);
  }
  if (said && rank > 0 && said->rank != rank)
    data_error("adapters", "{}: the adapter of '{}' has rank {}, and {} by the settings beside it", file, layer, rank, said->rank);
  if (said && said->use_dora && kind == Kind::lora && !parts.contains(kMagnitude) && !parts.contains(kDoraScale))
    data_error("adapters", "{}: its settings say DoRA, and '{}' has no magnitude", file, layer);
  auto alpha = parts.find(kAlpha);
  if (alpha == parts.end()) return said ? said->scale() : 1;
  if (rank == 0 || (kind == Kind::lokr && parts.contains("lokr_w1") && parts.contains("lokr_w2"))) return 1;
  return alpha->second.to(at::kDouble).item<double>() / static_cast<double>(rank);
}

Magnitude magnitude_of(const Parts& parts, const std::string& file, const std::string& layer) {
  auto it = parts.contains(kMagnitude) ? parts.find(kMagnitude) : parts.find(kDoraScale);
  if (it == parts.end()) return {};
  auto m = it->second;
  bool by_input = it->first == kDoraScale && m.dim() >= 2 && m.size(0) == 1 && m.size(1) > 1;
  if (m.numel() != std::max(m.size(0), m.dim() > 1 ? m.size(1) : 1))
    data_error("adapters", "{}: the DoRA magnitude of '{}' must be a vector", file, layer);
  auto strength = it->first == kMagnitude         ? DoraStrength::update
                  : layer.starts_with("lycoris_") ? DoraStrength::lengths
                                                  : DoraStrength::whole;
  return {m.flatten(), by_input ? NormAxis::input : NormAxis::output, strength};
}

}  // namespace

void swap_halves(AdapterWeights& w, const std::string& file) {
  auto swap = [&](at::Tensor& t) {
    if (t.size(0) % 2)
      data_error("adapters", "{}: the adapter of '{}' cannot be cut in halves, which stand in another order here", file, w.path);
    t = t.roll(t.size(0) / 2, 0);
  };
  for (auto& [name, tensor] : w.parameters) {
    for (const char* of_rows : {"lora_B.weight", "hada_w1_a", "hada_w2_a", "lokr_w1", "lokr_w1_a"}) {
      if (name == of_rows) swap(tensor);
    }
  }
  if (w.magnitude.m.defined() && w.magnitude.axis == NormAxis::output) swap(w.magnitude.m);
}

namespace {

bool is_core(const std::string& part) { return part == "lora_mid.weight" || part.ends_with("_t1") || part.ends_with("_t2"); }

/// A convolution in Tucker form has a core [rank, rank, kernel, kernel] between two matrices (LyCORIS use_tucker, peft
/// use_effective_conv2d). Here the core is multiplied into the matrix at the input, which gives the same ΔW; the other is stored
/// transposed, except in LoRA.
void fold_cores(Parts& parts, const std::string& file, const std::string& layer) {
  struct Core {
    const char *core, *left, *right;
    bool transposed;
  };
  for (const auto& [core, left, right, transposed] :
       {Core{"lora_mid.weight", "lora_B.weight", "lora_A.weight", false}, Core{"hada_t1", "hada_w1_a", "hada_w1_b", true},
        Core{"hada_t2", "hada_w2_a", "hada_w2_b", true}, Core{"lokr_t2", "lokr_w2_a", "lokr_w2_b", true}}) {
    if (!parts.contains(core)) continue;
    require(parts, {left, right}, file, layer);
    auto t = parts.at(core);
    auto& inner = parts.at(right);
    if (t.size(1) != inner.size(0) || t.size(0) != parts.at(left).size(transposed ? 0 : 1))
      data_error("adapters", "{}: the ranks of {} and its neighbours in the adapter of '{}' do not agree", file, core, layer);
    // t [i, j, k, l] · inner [j, c] -> [i, c, k, l]
    auto dtype = inner.scalar_type();
    inner = at::tensordot(t.to(at::kFloat), inner.to(at::kFloat), {1}, {0}).movedim(-1, 1).flatten(1).to(dtype).contiguous();
    if (transposed) parts[left] = parts.at(left).t().contiguous();
    parts.erase(core);
  }
}

std::map<std::string, Parts> read_parts(const io::TensorSource& source, const std::string& file) {
  std::map<std::string, Parts> by_layer;
  int64_t num_zeros = 0, num_embeddings = 0;
  for (const auto& name : source.names()) {
    auto key = split_key(name);
    if (!key) {
      bool is_embedding = name.starts_with("bundle_emb."), is_zero = !is_embedding && is_zero_delta(source, name);
      num_embeddings += is_embedding;
      num_zeros += is_zero;
      if (is_embedding || is_zero) continue;
      data_error("adapters", "{}: '{}' is not a key of a LoRA; is this a whole model?", file, name);
    }
    auto tensor = source.tensor(name);
    if (key->part == kAlpha) {
      if (tensor.numel() != 1) data_error("adapters", "{}: '{}' must be one number", file, name);
    } else if (key->part == kMagnitude || key->part == kDoraScale) {
      if (tensor.dim() == 0) data_error("adapters", "{}: '{}' must be a vector", file, name);
    } else {
      if (tensor.dim() != 4 && (tensor.dim() != 2 || is_core(key->part)))
        data_error("adapters", "{}: '{}' must be a matrix, or the kernels of a convolution", file, name);
      if (!is_core(key->part)) tensor = tensor.flatten(1);
    }
    by_layer[key->layer][key->part] = tensor;
  }
  for (auto& [layer, parts] : by_layer) fold_cores(parts, file, layer);
  if (num_zeros > 0) info("{}: {} deltas that are zero are skipped", file, num_zeros);
  if (num_embeddings > 0) warn("{}: {} embeddings of words are skipped; prompts are read without them", file, num_embeddings);
  return by_layer;
}

}  // namespace

bool is_zero(const AdapterWeights& w) {
  return !w.magnitude.m.defined() &&
         std::any_of(w.parameters.begin(), w.parameters.end(), [](const auto& p) { return !p.second.any().template item<bool>(); });
}

bool is_adapter(const io::TensorSource& source) {
  for (const auto& name : source.names()) {
    auto key = split_key(name);
    if (key && (key->part == "lora_B.weight" || key->part == "hada_w1_a" || key->part.starts_with("lokr_w1"))) return true;
  }
  return false;
}

std::vector<AdapterWeights> read_adapter(const std::filesystem::path& path, const LayersOf& layers_of,
                                         const std::function<int64_t(const std::string&)>& rows_of) {
  auto place = find_adapter(path);
  auto file = place.tensors.string();
  auto source = io::TensorSource::open({place.tensors});
  AdapterConfigs configs(place, source.metadata());
  std::vector<AdapterWeights> weights;
  std::map<std::string, std::string> names;  // by layer
  for (const auto& [name, parts] : read_parts(source, file)) {
    AdapterWeights entry;
    entry.kind = kind_of(parts, file, name);
    entry.scale = scale_of(parts, entry.kind, configs.find(name), file, name);
    entry.magnitude = magnitude_of(parts, file, name);
    for (const auto& [part, tensor] : parts) {
      if (part != kAlpha && part != kMagnitude && part != kDoraScale) entry.parameters.emplace_back(part, tensor);
    }
    auto [layers, swapped_halves] = layers_of(without_prefix(name));
    if (layers.empty()) layers = {name};
    for (const auto& layer : layers) {
      if (auto [it, is_new] = names.emplace(layer, name); !is_new)
        data_error("adapters", "{} has two adapters of '{}', called '{}' and '{}'; take one out", file, layer, it->second, name);
    }
    if (layers.size() == 1) {
      entry.path = layers[0];
      if (swapped_halves) swap_halves(entry, file);
      weights.push_back(entry);
      continue;
    }
    for (const auto& layer : layers) {
      entry.path = layer;
      entry.fused_rows = {entry.fused_rows.begin + entry.fused_rows.count, rows_of(layer)};
      weights.push_back(entry);
    }
  }
  if (weights.empty()) data_error("adapters", "{} holds no LoRA", file);
  return weights;
}

Layout parse_layout(std::string_view name) {
  static const std::vector<std::string> kNames{"auto", "diffusers", "kohya", "lycoris", "onetrainer", "diffsynth"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Layout>(i);
  }
  unknown_choice("adapters", "lora_format", name, kNames);
}

void check_readers(Layout layout, Kind kind, bool is_dora, NormAxis axis) {
  if (layout == Layout::diffsynth && (kind != Kind::lora || is_dora))
    config_error("adapters", "--lora_format diffsynth is for LoRA: DiffSynth-Studio reads no other kind; take another format, or auto");
  if (!is_dora || axis == NormAxis::output) return;
  if (layout == Layout::diffusers)
    config_error("adapters",
                 "--lora_format diffusers cannot be had with --dora_norm input: diffusers and peft would leave out its magnitudes; take "
                 "onetrainer or kohya, or --dora_norm output");
  if (layout == Layout::lycoris)
    config_error("adapters",
                 "--lora_format lycoris cannot be had with --dora_norm input: LyCORIS refuses such files; take onetrainer or kohya, or "
                 "--dora_norm output");
}

Layout settled(Layout layout, const std::vector<AdaptedList>& all) {
  bool is_fused = false, by_input = false, by_output = false, is_lora = true;
  for (const auto& adapted : all) {
    is_fused |= any_fused(adapted);
    for (const auto& item : adapted) {
      auto kind = item.adapter->update().kind();
      bool is_dora = item.adapter->is_dora();
      auto axis = item.adapter->magnitude().axis;
      check_readers(layout, kind, is_dora, axis);
      is_lora &= kind == Kind::lora;
      by_input |= is_dora && axis == NormAxis::input;
      by_output |= is_dora && axis == NormAxis::output;
    }
  }
  if (layout != Layout::automatic) return layout;
  if (is_fused && !by_output) return Layout::kohya;
  if (by_input) return Layout::onetrainer;
  return is_lora ? Layout::diffusers : Layout::lycoris;
}

namespace {

/// A parameter in the shape that other programs give it: kernels of a convolution have four dimensions, factors of LoHa and of a split LoKr
/// two.
at::Tensor in_file_shape(const std::string& part, const at::Tensor& p, const kernels::Product& product) {
  if (part == "lora_A.weight" || part == "lokr_w2") return p.view(product.weight_sizes(p.size(0), p.size(1)));
  if (part == "lora_B.weight") return p.view(product.pointwise()->weight_sizes(p.size(0), p.size(1)));
  return p;
}

/// One number for each index of dimension `dim` of a weight of this product.
at::Tensor along_weight(const at::Tensor& m, size_t dim, const kernels::Product& product) {
  std::vector<int64_t> sizes(product.weight_sizes(1, product.columns_per_channel()).size(), 1);
  sizes[dim] = m.size(0);
  return m.view(sizes);
}

/// diffusers hands its text encoders' adapters to transformers, which (5.23) leaves a magnitude without `.weight` unread; peft takes
/// both spellings, and writes the one without.
const char* magnitude_name(const LayerPrefixes& prefixes) {
  return prefixes.diffusers.starts_with("text_encoder") ? ".lora_magnitude_vector.weight" : ".lora_magnitude_vector";
}

}  // namespace

io::NamedTensors adapter_tensors(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype, Layout layout) {
  io::NamedTensors tensors;
  const auto chosen = settled(layout, {adapted});
  const bool is_diffsynth = chosen == Layout::diffsynth;
  for (const auto& item : in_layout(adapted, prefixes, chosen)) {
    const auto& name = item.path;
    const auto& update = item.adapter->update();
    const auto& product = *item.layer->product();
    // LoHa and LoKr are nothing that diffusers could refuse for it.
    bool has_alpha = !is_diffsynth && (chosen != Layout::diffusers || prefixes.diffusers_alpha || update.kind() != Kind::lora);
    for (auto [part, tensor] : update.parameters()) {
      auto value = in_file_shape(part, tensor.detach(), product);
      if (!has_alpha && part == "lora_B.weight") value = value * update.scale();
      value = value.to(dtype);
      if (chosen != Layout::diffusers && part == "lora_A.weight") part = is_diffsynth ? "lora_A.default.weight" : "lora_down.weight";
      if (chosen != Layout::diffusers && part == "lora_B.weight") part = is_diffsynth ? "lora_B.default.weight" : "lora_up.weight";
      tensors.emplace_back(name + "." + part, value);
    }
    auto alpha = update.scale() * static_cast<double>(std::max<int64_t>(update.rank(), 1));
    if (has_alpha) tensors.emplace_back(name + ".alpha", at::full({}, alpha, at::TensorOptions().dtype(at::kFloat)));
    if (!item.adapter->is_dora()) continue;
    auto m = item.adapter->magnitude().m.detach();
    bool by_output = item.adapter->magnitude().axis == NormAxis::output;
    if (chosen == Layout::diffusers && by_output) {
      // peft has [out] for linear layers and [1, out, 1, 1] for convolutions
      tensors.emplace_back(name + magnitude_name(prefixes), product.channel_dim() == -1 ? m : along_weight(m, 1, product));
    } else {
      tensors.emplace_back(name + ".dora_scale", along_weight(m, by_output ? 0 : 1, product));
    }
  }
  return tensors;
}

}  // namespace burnish::adapters
