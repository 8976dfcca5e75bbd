#include "models/parts/shared_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <set>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "models/text/qwen.h"

namespace burnish::models {

Encode encoding_by(const AutoencoderPart& autoencoder, Components& components, c10::Device device) {
  return [&components, device, name = autoencoder.recipe.name, encode = autoencoder.encode](const at::Tensor& image) {
    return encode(components.module(name), image.to(device));
  };
}

at::Tensor as_batch(const std::vector<int64_t>& ids, c10::Device device) {
  return at::tensor(ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0).to(device);
}

int64_t token_limit(const Components& components, const std::string& encoder) {
  return components.find(encoder)->tokenizer->limit(components.tokenizer(encoder));
}

std::vector<int64_t> ids_in_chat(const Components& components, const std::string& encoder, const tokenizers::ChatTemplate& chat,
                                 const std::string& text) {
  const auto& any = components.tokenizer(encoder);
  auto ids = any.encode(text);
  const auto limit = token_limit(components, encoder);
  // The tokenizer of a model that is only named knows no template.
  if (components.source(encoder).entry->is_sizes) {
    ids.resize(static_cast<size_t>(limit));
    return ids;
  }
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(any);
  const auto num_behind = std::ssize(tokenizer.encode_bare(chat.after));
  const auto num_in_prompt = std::ssize(ids) - tokenizer.num_before() - num_behind;
  const auto num_cut = std::min(num_in_prompt, std::ssize(ids) - limit);
  if (num_cut > 0) ids.erase(ids.end() - num_behind - num_cut, ids.end() - num_behind);
  return ids;
}

void encode_by_qwen(pipeline::Scope& scope, Components& components, c10::Device device, int64_t layer, int64_t num_dropped) {
  const std::string encoder = "text_encoder";
  scope.uses(encoder);
  auto ids = components.tokenizer(encoder).encode(scope.text("prompt"));
  const auto limit = token_limit(components, encoder);
  // A model that is only named has no text that is known; it may be as long as any.
  bool is_named = components.source(encoder).entry->is_sizes;
  if (is_named || std::ssize(ids) > limit) ids.resize(static_cast<size_t>(limit));
  const bool is_empty = ids.empty();
  if (is_empty) ids = {0};
  auto ids_BL = as_batch(ids, device);
  auto states_BLD = static_cast<text::QwenEncoder&>(components.module(encoder)).forward(ids_BL, {layer}).front();
  if (is_empty) states_BLD = at::zeros_like(states_BLD);
  write_text(scope, states_BLD.narrow(1, num_dropped, ids_BL.size(1) - num_dropped));
}

void write_text(pipeline::Scope& scope, const at::Tensor& states_1LD) {
  scope.write("text_embedding", states_1LD.contiguous());
  scope.write("text_mask", at::ones({1, states_1LD.size(1)}, states_1LD.options()));
}

pipeline::Units latent_units(const std::string& kind, const std::string& vae, Encode encode) {
  using pipeline::Scope;
  if (kind != "sample") {
    return {{"encode_image", {"image"}, {"latents"}, {vae}, [vae, encode](Scope& s) {
               s.uses(vae);
               s.write("latents", encode(s.tensor("image")).mean_BCHW);
             }}};
  }
  return {{"encode_image",
           {"image"},
           {"latents_mean", "latents_logvar"},
           {vae},
           [vae, encode](Scope& s) {
             s.uses(vae);
             auto moments = encode(s.tensor("image"));
             s.write("latents_mean", moments.mean_BCHW);
             s.write("latents_logvar", moments.logvar_BCHW);
           }},
          {"draw_latents", {"latents_mean", "latents_logvar", "latent_noise"}, {"latents"}, {}, [](Scope& s) {
             s.write("latents", s.tensor("latents_mean") + at::exp(s.tensor("latents_logvar") / 2) * s.tensor("latent_noise"));
           }}};
}

pipeline::Units reference_picture_units(const std::string& vae, Encode encode) {
  return {{"encode_references", {"reference_images"}, {"latents_of_references"}, {vae}, [vae, encode](pipeline::Scope& s) {
             s.uses(vae);
             pipeline::Value latents = s.value("reference_images");
             pipeline::change_tensors(latents, [&](const at::Tensor& image) { return encode(image.unsqueeze(0)).mean_BCHW.squeeze(0); });
             s.write("latents_of_references", std::move(latents));
           }}};
}

const at::Tensor& picture_of(pipeline::Scope& scope, const std::string& column) {
  const auto& list = scope.lists(column).at(0);
  if (list.size() != 1) data_error("models", "the column '{}' names {} pictures of a sample, and one was expected", column, list.size());
  return list[0];
}

at::Tensor white_of(const at::Tensor& mask_3HW) { return (mask_3HW.mean(0) > 0).to(mask_3HW.scalar_type()); }

at::Tensor every_nth(const at::Tensor& x_HW, int64_t first, int64_t n) {
  return x_HW.slice(-2, first, std::nullopt, n).slice(-1, first, std::nullopt, n);
}

std::vector<at::Tensor> stack_lists(const pipeline::TensorLists& lists) {
  std::vector<at::Tensor> batches;
  for (size_t i = 0; i < lists.at(0).size(); ++i) {
    std::vector<at::Tensor> of_samples;
    for (const auto& list : lists) of_samples.push_back(list.at(i));
    batches.push_back(at::stack(of_samples));
  }
  return batches;
}

pipeline::Units noise_units(const diffusion::Process& process, const std::vector<LatentSpace::Stream>& streams) {
  auto time = process.time_name();
  pipeline::Units units;
  for (const auto& stream : streams) {
    auto latents = stream.name, noise = stream.value("noise"), noisy = stream.value("noisy"), target = stream.value("target");
    units.push_back({stream.value("add_noise"), {latents, noise, time}, {noisy, target}, {}, [=, &process](pipeline::Scope& s) {
                       const auto at = process.level(stream.name, s.tensor(time));
                       s.write(noisy, process.add_noise(s.tensor(latents), s.tensor(noise), at));
                       s.write(target, process.target(s.tensor(latents), s.tensor(noise), at));
                     }});
  }
  return units;
}

std::vector<TokenCount> count_tokens(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts) {
  std::set<std::string> encoders;
  for (const auto& unit : units) {
    if (!contains(unit.reads, "prompt")) continue;
    for (const auto& model : unit.models) encoders.insert(component_of(model));
  }
  std::vector<TokenCount> counts;
  for (const auto& encoder : encoders) {
    const auto* recipe = components.find(encoder);
    if (!recipe || !recipe->tokenizer || !components.has(encoder)) continue;
    components.check(encoder);  // loads its tokenizer
    const auto& tokenizer = components.tokenizer(encoder);
    auto& count = counts.emplace_back(TokenCount{.encoder = encoder, .limit = token_limit(components, encoder)});
    count.option = recipe->tokenizer->option;
    for (const auto& text : texts) {
      auto num_tokens = std::ssize(tokenizer.encode(text));
      count.num_cut += num_tokens > count.limit;
      count.longest = std::max(count.longest, num_tokens);
    }
  }
  return counts;
}

void warn_of_cut_texts(Components& components, const pipeline::Units& units, const std::vector<std::string>& texts, const char* what) {
  for (const auto& count : count_tokens(components, units, texts)) {
    if (count.num_cut == 0) continue;
    warn("{} of {} {} have more than the {} tokens that {} reads, and are cut; the longest has {}{}", count.num_cut, texts.size(), what,
         count.limit, count.encoder, count.longest, count.option ? fmt::format(" (--{} reads more)", count.option) : "");
  }
}

pipeline::Units decode_units(const std::string& vae, std::function<at::Tensor(const at::Tensor&)> decode) {
  return {{"decode", {"latents"}, {"image"}, {vae}, [vae, decode](pipeline::Scope& s) {
             s.uses(vae);
             s.write("image", decode(s.tensor("latents")));
           }}};
}

}  // namespace burnish::models
