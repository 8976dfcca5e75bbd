#include "models/parts/clip_towers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/parts/siglip.h"

namespace burnish::models {

namespace {

/// The part's own numbers of config.json, with what transformers takes where they are not said.
nlohmann::json numbers_of_tower(const nlohmann::json& config, const char* part, nlohmann::json otherwise) {
  if (config.is_object() && config.contains(part) && config[part].is_object()) otherwise.update(config[part]);
  otherwise.erase("projection_dim");  // a tower's own, which transformers does not read of a whole CLIP and writes as 512 whatever it is
  return otherwise;
}

}  // namespace

Source find_clip(const ModelFiles& files, const std::vector<std::string>& prefixes) {
  for (const auto& entry : files.entries) {
    if (is_siglip(entry)) continue;
    for (const char* mark : {"text_model.embeddings.token_embedding.weight", "embeddings.token_embedding.weight"}) {
      if (auto tensors = find_below(entry, prefixes, mark)) return {&entry, text::clip_tensors(*tensors), {}};
    }
  }
  return {};
}

ClipTowers clip_towers(const ModelEntry& entry, const std::string& prefix) {
  const auto tensors = prefix.empty() ? *entry.tensors : entry.tensors->below(prefix);
  ClipTowers towers;
  towers.texts = {&entry, text::clip_tensors(tensors, text::Projection::keep), {}};
  towers.pictures = {&entry, tensors.below("vision_model.").without({"embeddings.position_ids"}), {}};
  naming(entry.label, [&] {
    towers.text = text::clip_config(numbers_of_tower(entry.config, "text_config", {{"num_attention_heads", 8}, {"eos_token_id", 49407}}),
                                    towers.texts.shapes());
    towers.vision =
        clip_vision_config(numbers_of_tower(entry.config, "vision_config", {{"num_attention_heads", 12}, {"hidden_act", "quick_gelu"}}),
                           towers.pictures.shapes());
    return 0;
  });
  return towers;
}

Recipe clip_text_recipe(const std::string& name, const Source& source, const text::ClipConfig& config) {
  return {
      .name = name, .what = "CLIP text encoder", .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
        return std::make_unique<text::ClipTextModel>(config, options);
      }};
}

std::unique_ptr<tokenizers::Tokenizer> clip_tokenizer(const ModelFiles& files, const ModelOptions& options, const ModelEntry& entry,
                                                      const text::ClipConfig& config, const char* model) {
  auto chosen = options.tokenizer_path;
  if (chosen.empty() && !find_tokenizer(files, "", "tokenizer")) chosen = folder_with(entry, {"tokenizer.json", "vocab.json"});
  auto tokenizer = tokenizers::load_clip(tokenizer_folder(files, chosen, "tokenizer", "CLIP"));
  if (tokenizer->num_ids() > config.vocab_size)
    data_error("models", "the tokenizer has {} tokens and the text encoder of {} knows {}; they belong to different models",
               tokenizer->num_ids(), model, config.vocab_size);
  return tokenizer;
}

at::Tensor embed_texts(text::ClipTextModel& tower, const tokenizers::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                       c10::Device device) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> embedded;
  for (const auto& one : texts) {
    // Tokens behind the end of a text are seen by none before it, so none are needed.
    const auto tokens = tokenizer.encode_padded(one, tower.config().max_positions);
    const auto ids_L = at::tensor(tokens.ids).narrow(0, tokens.first_token, tokens.num_tokens);
    embedded.push_back(tower.forward(ids_L.unsqueeze(0).to(device)).projected_BP);
  }
  return at::cat(embedded);
}

}  // namespace burnish::models
