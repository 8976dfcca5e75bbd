#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "models/families/stable_diffusion/model.h"
#include "models/parts/word_units.h"

namespace burnish::models::stable_diffusion {

std::vector<std::vector<int64_t>> chunks_of(const tokenizers::Tokenizer& tokenizer, std::string_view text, int64_t num_chunks,
                                            int64_t length) {
  auto all = tokenizer.encode(text);
  const auto inner = length - 2, total = std::ssize(all) - 2;
  std::vector<std::vector<int64_t>> chunks;
  for (int64_t i = 0; i < num_chunks; ++i) {
    auto first = std::min(total, i * inner), last = std::min(total, first + inner);
    std::vector<int64_t> ids{all.front()};
    ids.insert(ids.end(), all.begin() + 1 + first, all.begin() + 1 + last);
    ids.push_back(tokenizer.end_id());
    ids.resize(static_cast<size_t>(length), tokenizer.pad_id());
    chunks.push_back(std::move(ids));
  }
  return chunks;
}

at::Tensor join_chunks(const at::Tensor& states_NLE) {
  if (states_NLE.size(0) == 1) return states_NLE;
  auto inner = states_NLE.slice(1, 1, -1).flatten(0, 1);
  return at::cat({states_NLE[0].slice(0, 0, 1), inner, states_NLE[-1].slice(0, -1)}).unsqueeze(0);
}

int64_t StableDiffusionModel::chunk_length(const std::string& text_encoder) const {
  return std::min<int64_t>(77, clip_configs_.at(text_encoder).max_positions);
}

int64_t StableDiffusionModel::num_chunks() const { return std::max<int64_t>(1, options_.get<int64_t>("max_token_length") / 75); }

text::ClipTextModel::Out StableDiffusionModel::encode(const std::string& component, const std::string& prompt) {
  auto& clip = loaded<text::ClipTextModel>(component);
  std::vector<at::Tensor> rows;
  for (const auto& ids : chunks_of(components_.tokenizer(component), prompt, num_chunks(), chunk_length(component)))
    rows.push_back(at::tensor(ids, at::TensorOptions().dtype(at::kLong)));
  return clip.forward(at::stack(rows).to(options_.device));
}

/// Counted from the end and from 1, the layer of the text encoders whose states the UNet reads: that of clip_skip, by default the last but
/// one of SDXL's encoders and the last of SD 1.5's.
int64_t StableDiffusionModel::layers_back() const {
  auto chosen = options_.get<int64_t>("clip_skip");
  return chosen > 0 ? chosen : is_xl() ? 2 : 1;
}

/// The states that the UNet reads; those of SD 1.5 alone pass the final norm.
at::Tensor StableDiffusionModel::embedding(const std::string& component, const text::ClipTextModel::Out& out) {
  auto state = out.states_BLE[out.states_BLE.size() - static_cast<size_t>(layers_back())];
  if (!is_xl()) state = loaded<text::ClipTextModel>(component).normalise(state);
  return join_chunks(state);
}

void StableDiffusionModel::encode_prompt_1(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  scope.write("text_embedding", embedding("text_encoder", encode("text_encoder", scope.text("prompt"))));
}

void StableDiffusionModel::encode_prompt_2(pipeline::Scope& scope) {
  scope.uses("text_encoder_2");
  auto out = encode("text_encoder_2", scope.text("prompt"));
  scope.write("text_embedding_2", embedding("text_encoder_2", out));
  scope.write("pooled_embedding", out.projected_BP.slice(0, 0, 1));  // of the first chunk
}

void StableDiffusionModel::denoise(pipeline::Scope& scope) {
  scope.uses("unet");
  auto to_dtype = [&](const char* name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  UNet::Inputs in{.latents_BCHW = to_dtype("noisy"),
                  .timestep_B = scope.tensor("timestep").to(options_.device, at::kFloat),
                  .text_BTE = to_dtype("text_embedding"),
                  .pooled_BE = {},
                  .time_ids_B6 = {}};
  if (is_xl()) {
    in.text_BTE = at::cat({in.text_BTE, to_dtype("text_embedding_2")}, -1);
    in.pooled_BE = to_dtype("pooled_embedding");
    in.time_ids_B6 = scope.tensor("time_ids").to(options_.device, at::kFloat);
  }
  scope.write("prediction", loaded<UNet>("unet").forward(in));
}

/// The ids of the states that join_chunks leaves of chunks.
static std::vector<int64_t> joined(const std::vector<std::vector<int64_t>>& chunks) {
  std::vector<int64_t> ids{chunks.front().front()};
  for (const auto& chunk : chunks) ids.insert(ids.end(), chunk.begin() + 1, chunk.end() - 1);
  ids.push_back(chunks.back().back());
  return ids;
}

UnitGroups StableDiffusionModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto add_words = [this](pipeline::Units& units, const std::string& encoder, const std::string& value) {
    auto ids_of = [this, encoder](const std::string& prompt) {
      return joined(chunks_of(components_.tokenizer(encoder), prompt, num_chunks(), chunk_length(encoder)));
    };
    for (auto& unit : word_units(components_, encoder, value, ids_of)) units.push_back(std::move(unit));
  };
  auto groups = shared_units(autoencoder_);
  std::vector<std::string> conditions{"noisy", "timestep", "text_embedding"};
  groups.encode_prompt = {
      {"encode_prompt_clip", {"prompt"}, {"text_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt_1(s); }}};
  add_words(groups.encode_prompt, "text_encoder", "text_embedding");
  if (is_xl()) {
    groups.encode_prompt.push_back(
        {"encode_prompt_open_clip", {"prompt"}, {"text_embedding_2", "pooled_embedding"}, {"text_encoder_2"}, [this](Scope& s) {
           encode_prompt_2(s);
         }});
    add_words(groups.encode_prompt, "text_encoder_2", "text_embedding_2");
    groups.encode_size = {{"encode_size", {"size_conditioning"}, {"time_ids"}, {}, [](Scope& s) {
                             s.write("time_ids", s.tensor("size_conditioning").to(at::kFloat));
                           }}};
    conditions.insert(conditions.end(), {"text_embedding_2", "pooled_embedding", "time_ids"});
  }
  groups.denoise = {{"denoise", conditions, {"prediction"}, {"unet"}, [this](Scope& s) { denoise(s); }}};
  return groups;
}

}  // namespace burnish::models::stable_diffusion
