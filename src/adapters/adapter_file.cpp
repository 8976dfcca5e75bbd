#include "adapters/adapter_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensordot.h>

#include <algorithm>
#include <optional>
#include <set>

#include "adapters/adapter_config.h"
#include "adapters/kinds.h"
#include "adapters/layers_in_file.h"
#include "adapters/make_change.h"
#include "base/input_error.h"
#include "base/log.h"

namespace burnish::adapters {

namespace {

const std::string kMagnitude = "magnitude", kDoraScale = "dora_scale", kAlpha = "alpha", kAlphaScale = "alpha_scale";
/// Up projections of the parts of a fused layer, by their number, and how many parts such a layer has at most.
const std::string kUpOfPart = "lora_B.";
constexpr int kMostParts = 3;

/// Says how a key ends.
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
    list.push_back({".alpha_scale", kAlphaScale});
    for (int part = 0; part < kMostParts; ++part)
      list.push_back({".lora_up.blocks." + std::to_string(part) + ".weight", kUpOfPart + std::to_string(part)});
    for (const char* part : {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2",
                             "lokr_w2_a", "lokr_w2_b", "lora_mid.weight", "hada_t1", "hada_t2", "lokr_t2"})
      list.push_back({std::string(".") + part, part});
    for (const char* end : {".lora_B.bias", ".lora_B.default.bias", ".lora_up.bias"}) list.push_back({end, "lora_bias"});
    for (const char* end : {".oft_R", ".boft_R", ".boft_s", ".ia3_l", ".vera_lambda_b", ".vera_lambda_d"}) {
      for (const char* adapter : {"", ".weight", ".default", ".default.weight"}) list.push_back({std::string(end) + adapter, end + 1});
    }
    for (const char* part : {"diff", "diff_b", "oft_blocks", "rescale", "on_input", "a1.weight", "a2.weight", "b1.weight", "b2.weight",
                             "p_layer.weight", "q_layer.weight", "lambda_layer"})
      list.push_back({std::string(".") + part, part});
    for (const std::string path : {"glora_A", "glora_B", "glora_C", "glora_D", "glora_E"}) {
      for (const char* part : {".Xd", ".Xu", ".X", ".zeros"}) list.push_back({"." + path + part, path + part});
    }
    list.push_back({".w_norm", "diff"});
    list.push_back({".b_norm", "diff_b"});
    return list;
  }();
  return all;
}

struct Key {
  std::string layer, part;
};

std::optional<Key> split_key(const io::TensorSource& source, const std::string& key) {
  for (const auto& ending : endings()) {
    if (key.ends_with(ending.text)) return Key{key.substr(0, key.size() - ending.text.size() + ending.num_of_name), ending.part};
  }
  // LyCORIS calls the factors of IA³ as a layer calls its weight.
  const std::string weight = ".weight";
  if (!key.ends_with(weight)) return std::nullopt;
  auto layer = key.substr(0, key.size() - weight.size());
  return source.contains(layer + ".on_input") ? std::optional(Key{layer, "ia3_weight"}) : std::nullopt;
}

std::string without_prefix(const std::string& name) {
  for (const char* prefix : {"base_model.model.", "transformer.", "model.diffusion_model.", "diffusion_model.", "pipe.dit.", "dit."}) {
    if (name.starts_with(prefix)) return name.substr(std::string_view(prefix).size());
  }
  // Some programs put the separator behind the prefix too; sd-scripts' OFT has a prefix of its own.
  for (const char* prefix : {"lora_unet__", "oft_unet_"}) {
    if (name.starts_with(prefix)) return "lora_unet_" + name.substr(std::string_view(prefix).size());
  }
  return name;
}

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
    if (parts.at("hada_w1_a").size(0) != parts.at("hada_w2_a").size(0) || parts.at("hada_w1_b").size(1) != parts.at("hada_w2_b").size(1))
      data_error("adapters", "{}: the two products of the LoHa of '{}' differ in their sides, {} × {} and {} × {}", file, layer,
                 parts.at("hada_w1_a").size(0), parts.at("hada_w1_b").size(1), parts.at("hada_w2_a").size(0),
                 parts.at("hada_w2_b").size(1));
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
/// has no rank and ignores its own alpha, as LyCORIS does. DyLoRA counts blocks of ranks.
double scale_of(const Parts& parts, Kind kind, const AdapterConfigs& configs, const std::string& file, const std::string& layer) {
  auto said = configs.find(layer);
  int64_t rank = 0;
  for (const char* name : {"lora_A.weight", "hada_w1_b", "lokr_w1_b", "lokr_w2_b"}) {
    if (parts.contains(name)) rank = parts.at(name).size(0);
  }
  if (said && rank > 0 && said->rank != rank)
    data_error("adapters", "{}: the adapter of '{}' has rank {}, and {} by the settings beside it", file, layer, rank, said->rank);
  if (said && said->use_dora && kind == Kind::lora && !parts.contains(kMagnitude) && !parts.contains(kDoraScale))
    data_error("adapters", "{}: its settings say DoRA, and '{}' has no magnitude", file, layer);
  if (auto scale = parts.find(kAlphaScale); scale != parts.end()) return scale->second.to(at::kDouble).item<double>();
  auto alpha = parts.find(kAlpha);
  if (alpha == parts.end()) return said ? said->scale() : 1;
  if (rank == 0 || (kind == Kind::lokr && parts.contains("lokr_w1") && parts.contains("lokr_w2"))) return 1;
  return alpha->second.to(at::kDouble).item<double>() / static_cast<double>(rank) * static_cast<double>(configs.dylora_block().value_or(1));
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

/// Tells whether a part is one number that says how much an adapter counts.
bool is_strength(const std::string& part) { return part == kAlpha || part == kAlphaScale; }

bool is_core(const std::string& part) { return part == "lora_mid.weight" || part.ends_with("_t1") || part.ends_with("_t2"); }

/// A convolution in Tucker form has a core [rank, rank, kernel...] between two matrices (LyCORIS use_tucker, peft
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
    // t [i, j, kernel...] · inner [j, c] -> [i, c, kernel...]
    auto dtype = inner.scalar_type();
    inner = at::tensordot(t.to(at::kFloat), inner.to(at::kFloat), {1}, {0}).movedim(-1, 1).flatten(1).to(dtype).contiguous();
    if (transposed) parts[left] = parts.at(left).t().contiguous();
    parts.erase(core);
  }
}

/// What a file says of its layers, and what it has for all of them together.
struct FileParts {
  std::map<std::string, Parts> by_layer;
  at::Tensor vera_a, vera_b;
};

/// Brings a tensor into the shape that it is read in. A data Error for a shape that no adapter has.
at::Tensor shaped(const at::Tensor& tensor, const std::string& part, const std::string& name, const std::string& file) {
  if (is_strength(part) || part == "on_input") {
    if (tensor.numel() != 1) data_error("adapters", "{}: '{}' must be one number", file, name);
    return tensor;
  }
  if (has_own_shape(part)) return tensor;
  if (part == kMagnitude || part == kDoraScale) {
    if (tensor.dim() == 0) data_error("adapters", "{}: '{}' must be a vector", file, name);
    return tensor;
  }
  constexpr int64_t kMatrix = 2, kMostDims = 5;  // kernels of sound have three dimensions, of pictures four, of clips five
  if (tensor.dim() < (is_core(part) ? kMatrix + 1 : kMatrix) || tensor.dim() > kMostDims)
    data_error("adapters", "{}: '{}' must be a matrix, or the kernels of a convolution", file, name);
  return is_core(part) ? tensor : tensor.flatten(1);
}

/// Of FP8 too, which few operators take.
bool is_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor.element_size() == 1 ? tensor.to(at::kFloat) : tensor).all().item<bool>();
}

void check_fractions(const at::Tensor& tensor, const std::string& name, const std::string& file) {
  if (!tensor.is_floating_point())
    data_error("adapters", "{}: '{}' holds whole numbers, and what an adapter trains has fractions; the file is damaged", file, name);
}

FileParts read_parts(const io::TensorSource& source, const std::string& file) {
  FileParts parts;
  int64_t num_zeros = 0, num_embeddings = 0;
  for (const auto& name : source.names()) {
    if (name.starts_with("bundle_emb.")) {
      ++num_embeddings;
      continue;
    }
    auto tensor = source.tensor(name);
    if (tensor.numel() == 0)
      data_error("adapters", "{}: '{}' is empty, so there is nothing to adapt with: get or make the file again", file, name);
    if (!is_finite(tensor))
      data_error("adapters", "{}: '{}' holds values that are not finite, so the file is damaged: get or make it again", file, name);
    if (name.ends_with("vera_A") || name.ends_with("vera_B")) {
      check_fractions(tensor, name, file);
      (name.ends_with("A") ? parts.vera_a : parts.vera_b) = tensor;
      continue;
    }
    auto key = split_key(source, name);
    if (!key) data_error("adapters", "{}: '{}' is not a key of a LoRA; is this a whole model, or the state of a run?", file, name);
    if (!is_strength(key->part) && key->part != "on_input") check_fractions(tensor, name, file);
    bool is_delta = key->part == "diff_b" || key->part == "lora_bias" || (key->part == "diff" && tensor.dim() < 2);
    if (is_delta && !tensor.any().item<bool>()) ++num_zeros;
    else parts.by_layer[key->layer][key->part] = shaped(tensor, key->part, name, file);
  }
  for (auto& [layer, of_layer] : parts.by_layer) fold_cores(of_layer, file, layer);
  if (num_zeros > 0) info("{}: {} deltas that are zero are skipped", file, num_zeros);
  if (num_embeddings > 0) warn("{}: {} embeddings of words are skipped; prompts are read without them", file, num_embeddings);
  return parts;
}

/// A data Error where the rows of one of our layers cannot be told from those of the fused layer that the file has.
void check_own_rows(const AdapterWeights& w, const std::string& file) {
  auto change = make_change(w.kind, w.parameters, w.scale);
  if (!change->splits_at(w.fused_rows.begin) || !change->splits_at(w.fused_rows.begin + w.fused_rows.count))
    data_error("adapters", "{}: the {} of '{}' is one for the parts of a fused layer together, and cannot be split into them", file,
               kind_name(w.kind), w.path);
}

/// Returns the adapters of the parts of a fused layer, where each has an up projection of its own, and of the one down projection as many
/// rows; nothing where the file has none.
std::vector<Parts> parts_apart(const Parts& parts, size_t count, const PartsOf& of) {
  std::vector<Parts> apart;
  if (!parts.contains(kUpOfPart + "0")) return apart;
  require(parts, {"lora_A.weight"}, of.file, of.layer);
  const auto& down = parts.at("lora_A.weight");
  if (down.size(0) % static_cast<int64_t>(count) != 0 || parts.contains(kUpOfPart + std::to_string(count)))
    data_error("adapters",
               "{}: the adapter of '{}' has one for each part of a fused layer, and {} parts were expected; is it for this model?", of.file,
               of.layer, count);
  const auto downs = down.chunk(static_cast<int64_t>(count), 0);
  for (size_t i = 0; i < count; ++i) {
    require(parts, {(kUpOfPart + std::to_string(i)).c_str()}, of.file, of.layer);
    Parts own{{"lora_A.weight", downs[i].contiguous()}, {"lora_B.weight", parts.at(kUpOfPart + std::to_string(i))}};
    for (const auto& name : {kAlpha, kAlphaScale}) {
      if (auto it = parts.find(name); it != parts.end()) own.insert(*it);
    }
    apart.push_back(std::move(own));
  }
  return apart;
}

/// The changes that the parts of one layer make.
std::vector<AdapterWeights> entries_of(Parts parts, const PartsOf& of, const FileParts& all, const AdapterConfigs& configs) {
  if (parts.contains("vera_lambda_b")) fold_vera(parts, all.vera_a, all.vera_b, of);
  bool has_lora = parts.contains("lora_A.weight");
  auto entries = take_bias_changes(parts, has_lora ? scale_of(parts, Kind::lora, configs, of.file, of.layer) : 1, of);
  auto magnitude = magnitude_of(parts, of.file, of.layer);
  if (auto other = read_kind(parts, of)) {
    if (magnitude.m.defined())
      data_error("adapters", "{}: '{}' is {} with a DoRA magnitude, which no program makes", of.file, of.layer, kind_name(other->kind));
    entries.push_back(std::move(*other));
    return entries;
  }
  bool has_nothing_else = std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.first == kAlpha; });
  if (has_nothing_else && !entries.empty()) return entries;
  AdapterWeights entry;
  entry.kind = kind_of(parts, of.file, of.layer);
  entry.scale = scale_of(parts, entry.kind, configs, of.file, of.layer);
  entry.magnitude = magnitude;
  for (const auto& [part, tensor] : parts) {
    if (!is_strength(part) && part != kMagnitude && part != kDoraScale) entry.parameters.emplace_back(part, tensor);
  }
  entries.push_back(std::move(entry));
  return entries;
}

}  // namespace

bool is_zero(const AdapterWeights& w) {
  // A parameter of these kinds that is zero leaves nothing of the change.
  static const std::set<Kind> kProducts{Kind::lora, Kind::loha, Kind::lokr, Kind::full, Kind::ia3};
  return kProducts.contains(w.kind) && !w.magnitude.m.defined() &&
         std::any_of(w.parameters.begin(), w.parameters.end(), [](const auto& p) { return !p.second.any().template item<bool>(); });
}

std::map<std::string, int64_t> kinds_in(const io::TensorSource& source) {
  std::map<std::string, std::map<std::string, std::string>> by_layer;  // the name of each part
  for (const auto& name : source.names()) {
    if (auto key = split_key(source, name)) by_layer[key->layer][key->part] = name;
  }
  std::map<std::string, int64_t> kinds;
  for (const auto& [layer, names] : by_layer) {
    std::vector<std::string> parts;
    for (const auto& [part, name] : names) parts.push_back(part);
    if (names.contains("diff_b") || names.contains("lora_bias")) ++kinds["bias delta"];
    auto kind = kind_of_parts(parts);
    if (!kind) continue;
    auto shape_of = [&](const char* part) { return source.info(names.at(part)).shape; };
    auto text = std::string(kind_name(*kind));
    if (names.contains("vera_lambda_b")) text = "vera";
    if (*kind == Kind::oft && names.contains("oft_blocks") && shape_of("oft_blocks").size() == 4) text = "boft";
    if (*kind == Kind::full && shape_of("diff").size() < 2) text = "norm delta";
    if (names.contains(kMagnitude) || names.contains(kDoraScale)) text = text == "lora" ? "dora" : text + " with a dora magnitude";
    for (const char* part :
         {"lora_A.weight", "hada_w1_b", "lokr_w1_b", "lokr_w2_b", "a2.weight", "glora_A.Xu", "q_layer.weight", "vera_lambda_d"}) {
      if (!names.contains(part) || shape_of(part).empty()) continue;
      text += " of rank " + std::to_string(shape_of(part)[0]);
      break;
    }
    ++kinds[text];
  }
  return kinds;
}

std::vector<AdapterWeights> read_adapter(const std::filesystem::path& path, const LayersOf& layers_of,
                                         const std::function<int64_t(const std::string&)>& rows_of,
                                         const std::function<int64_t(const std::string&)>& columns_of) {
  auto place = find_adapter(path);
  auto file = place.tensors.string();
  auto source = io::TensorSource::open({place.tensors});
  AdapterConfigs configs(place, source.metadata());
  std::vector<AdapterWeights> weights;
  std::map<std::string, std::string> names;  // by layer
  auto all = read_parts(source, file);
  for (const auto& [name, parts] : all.by_layer) {
    auto [layers, swapped_halves] = layers_of(without_prefix(name));
    if (layers.empty()) layers = {name};
    PartsOf of{name, file, 0, columns_of(layers[0]), configs.oft(name)};
    for (const auto& layer : layers) {
      of.out += rows_of(layer);
      if (auto [it, is_new] = names.emplace(layer, name); !is_new)
        data_error("adapters", "{} has two adapters of '{}', called '{}' and '{}'; take one out", file, layer, it->second, name);
    }
    const auto apart = parts_apart(parts, layers.size(), of);
    for (size_t i = 0; i < apart.size(); ++i) {
      for (auto& entry : entries_of(apart[i], of, all, configs)) {
        entry.path = layers[i];
        weights.push_back(entry);
      }
    }
    if (!apart.empty()) continue;
    for (auto& entry : entries_of(parts, of, all, configs)) {
      entry.path = layers[0];
      if (swapped_halves) swap_halves(entry, file);
      if (layers.size() == 1) {
        weights.push_back(entry);
        continue;
      }
      for (const auto& layer : layers) {
        entry.path = layer;
        entry.fused_rows = {entry.fused_rows.begin + entry.fused_rows.count, rows_of(layer)};
        check_own_rows(entry, file);
        weights.push_back(entry);
      }
    }
  }
  if (weights.empty()) data_error("adapters", "{} holds no LoRA", file);
  return weights;
}

}  // namespace burnish::adapters
