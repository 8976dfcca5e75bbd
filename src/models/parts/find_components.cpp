#include "models/parts/find_components.h"

#include <c10/util/accumulate.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/text/gemma.h"
#include "models/text/qwen.h"
#include "models/text/qwen_vision.h"
#include "models/text/t5.h"
#include "models/vae/patch_autoencoder.h"

namespace burnish::models {

const std::vector<std::string> kDenoiserPrefixes{"",
                                                 "model.diffusion_model.",
                                                 "diffusion_model.",
                                                 "net.",
                                                 "model.",
                                                 "transformer.",
                                                 "dit.",
                                                 "pipe.dit.",
                                                 "module.",
                                                 "unet.",
                                                 "module.model.",
                                                 "model.transformer.",
                                                 "_orig_mod.",
                                                 "module._orig_mod."};

namespace {

/// Tells whether a tensor counts what an average was made of, as PyTorch's, Lightning's and diffusers' averages save it: one number.
bool is_counter(const io::TensorSource& tensors, const std::string& name) {
  static const std::set<std::string> kCounters{"decay", "num_updates", "n_averaged", "optimization_step", "initted", "step", "global_step"};
  return kCounters.contains(name.substr(name.rfind('.') + 1)) && c10::multiply_integers(tensors.info(name).shape) == 1;
}

io::TensorSource without_counters(const io::TensorSource& tensors) {
  return tensors.renamed([&](const std::string& name) { return is_counter(tensors, name) ? "" : name; });
}

}  // namespace

std::optional<io::TensorSource> below_first(const io::TensorSource& file, const std::vector<std::string>& prefixes,
                                            const std::vector<std::string>& marks) {
  for (const auto& prefix : prefixes) {
    const bool has_one = std::ranges::any_of(marks, [&](const auto& mark) { return file.contains(prefix + mark); });
    if (has_one) return without_counters(prefix.empty() ? file : file.below(prefix));
  }
  return std::nullopt;
}

std::optional<io::TensorSource> find_below(const ModelEntry& entry, const std::vector<std::string>& prefixes, const std::string& mark) {
  return entry.tensors ? below_first(*entry.tensors, prefixes, {mark}) : std::nullopt;
}

Source find_marked(const ModelFiles& files, const std::string& mark) {
  for (const auto& entry : files.entries) {
    if (entry.tensors && entry.tensors->contains(mark)) return {&entry, *entry.tensors, {}};
  }
  return {};
}

std::string pipeline_class(const ModelFiles& files) {
  const auto index = files.in_pipeline("model_index.json");
  return index && io::is_there(*index) ? io::class_name(io::read_json(*index)) : "";
}

Source find_transformer(const ModelFiles& files, const std::vector<std::string>& marks, const std::string& class_name,
                        const std::string& unlike) {
  for (const auto& entry : files.entries) {
    if (!unlike.empty() && entry.tensors && entry.tensors->contains(unlike)) continue;
    for (const auto& mark : marks) {
      auto tensors = find_below(entry, kDenoiserPrefixes, mark);
      if (tensors) return {&entry, tensors, {}};
    }
    bool config_only = !entry.tensors && io::class_name(entry.config) == class_name;
    if (config_only) return {&entry, std::nullopt, {}};
  }
  return {};
}

Source find_transformer(const ModelFiles& files, const std::string& mark, const std::string& class_name, const OriginalNames& original) {
  auto found = find_transformer(files, {mark, original.mark}, class_name);
  found.is_original = found.tensors && !found.tensors->contains(mark);
  if (!found.is_original) return found;
  found.keys = original.keys();
  found.tensors = found.tensors->without(original.unread);
  return found;
}

Source find_autoencoder(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    for (const char* mark : {"decoder.up_blocks.0.resnets.0.norm1.weight", "decoder.up.0.block.0.norm1.weight"}) {
      if (auto tensors = find_below(entry, {"", "vae.", "first_stage_model."}, mark)) return {&entry, tensors, vae::kl_keys(*tensors)};
    }
  }
  return {};
}

Source find_patch_autoencoder(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    auto found = find_autoencoder({{entry}, {}});
    if (found.entry && vae::has_patch_statistics(*found.tensors)) return {&entry, vae::patch_tensors(*found.tensors), found.keys};
  }
  return {};
}

Source find_causal_autoencoder(const ModelFiles& files, vae::CausalFor use) {
  for (const auto& entry : files.entries) {
    for (const char* mark : {"decoder.up_blocks.0.resnets.0.norm1.gamma", "decoder.upsamples.0.residual.0.gamma",
                             "decoder.upsamples.0.upsamples.0.residual.0.gamma"}) {
      auto tensors = find_below(entry, {"", "vae.", "first_stage_model."}, mark);
      if (tensors) return {&entry, vae::causal_tensors(*tensors, use), vae::causal_keys(*tensors, use)};
    }
  }
  return {};
}

std::vector<std::string> text_prefixes(const std::vector<std::string>& words) {
  std::vector<std::string> prefixes{""};
  for (const auto& word : words)
    prefixes.insert(prefixes.end(), {"text_encoders." + word + ".transformer.", "text_encoders." + word + "."});
  return prefixes;
}

Source find_t5(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  for (const auto& entry : files.entries) {
    for (const char* mark : {"encoder.block.0.layer.0.SelfAttention.q.weight", "blocks.0.pos_embedding.embedding.weight"}) {
      auto found = find_below(entry, prefixes, mark);
      if (!found) continue;
      auto tensors = text::t5_tensors(*found);
      return {&entry, tensors, text::t5_keys(tensors)};
    }
  }
  return {};
}

/// Finds a decoder that has a tensor of its first layer, and below the layer none like `unlike`.
static Source find_decoder(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark,
                           const std::string& unlike = "") {
  for (const auto& entry : files.entries) {
    for (const std::string body : {"model.language_model.", "language_model.model.", "language_model.", "model.", ""}) {
      auto tensors = find_below(entry, prefixes, body + "layers.0." + mark);
      if (tensors && (unlike.empty() || !tensors->contains(body + "layers.0." + unlike))) return {&entry, text::qwen_tensors(*tensors), {}};
    }
  }
  return {};
}

Source find_qwen(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark) {
  return find_decoder(files, prefixes, mark, text::kGemmaMark);
}

Source find_gemma(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  return find_decoder(files, prefixes, text::kGemmaMark);
}

Source find_qwen3_vl(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  auto found = find_qwen(files, prefixes, kQwen3Mark);
  if (!found.entry) return {};
  bool sees = std::ranges::any_of(found.entry->tensors->names(), [](const std::string& name) {
    return name.find("visual.") != name.npos || name.find("language_model.") != name.npos;
  });
  return sees ? found : Source{};
}

Source find_mistral(const ModelFiles& files, const std::vector<std::string>& prefixes, const Depth& depth) {
  for (const auto& entry : files.entries) {
    if (is_unused_component(entry.component)) continue;
    auto found = find_qwen({{entry}, {}}, prefixes, "self_attn.o_proj.weight");
    if (!found.tensors) continue;
    const std::string layer = "layers.0.";
    auto has_layers = [&](int64_t count) { return found.tensors->contains(fmt::format("layers.{}.self_attn.o_proj.weight", count - 1)); };
    if (!has_layers(depth.least) || has_layers(depth.most + 1)) continue;
    if (found.tensors->contains(layer + kQwen3Mark) || found.tensors->contains(layer + kQwen2Mark)) continue;
    return {&entry, found.tensors, {}};
  }
  return {};
}

// Old files keep it at the top, new ones beside the text model.
Source find_vision_tower(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  for (const auto& entry : files.entries) {
    for (const auto& prefix : prefixes) {
      for (const char* tower : {"visual.", "model.visual."}) {
        if (auto tensors = find_below(entry, {prefix + tower}, text::kVisionMark)) return {&entry, tensors, {}};
      }
    }
  }
  return {};
}

std::string words_of(const Described& components) {
  std::vector<std::string> found;
  for (const auto& [source, words] : components) {
    if (source.tensors) found.push_back(words);
  }
  return join(found, " + ");
}

}  // namespace burnish::models
