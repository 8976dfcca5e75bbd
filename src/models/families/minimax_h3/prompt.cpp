#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include "models/families/minimax_h3/model.h"
#include "models/families/minimax_h3/references.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

// MiniMax-H3 reads a text, and before it what is given: frames of a clip, or references.
namespace burnish::models::minimax_h3 {

namespace {

/// The text that stands for none: the model knows no sequence without one.
const std::string kNoText = " ";

}  // namespace

/// The text's tokens; what is given comes before a prompt, each behind its number.
PictureText MiniMaxH3Model::text_of(pipeline::Scope& scope) {
  const auto& tokenizer = components_.tokenizer(kEncoder);
  const auto limit = token_limit(components_, kEncoder);
  ToldReferences given;
  if (options_.references) given = told_references(scope.lists(kSeenGiven).at(0));
  // A model that is only named has no text that is known; it may be as long as any.
  if (components_.source(kEncoder).entry->is_sizes) return longest_picture_text(given.seen, limit);
  const auto& prompt = scope.text("prompt").empty() ? kNoText : scope.text("prompt");
  if (!given.parts.empty())
    return picture_text(static_cast<const tokenizers::ChatTokenizer&>(tokenizer), {}, given.parts, prompt, given.seen, limit);
  PictureText text{.ids = tokenizer.encode(prompt)};
  if (std::ssize(text.ids) > limit) text.ids.resize(static_cast<size_t>(limit));
  return text;
}

/// The tokens that stand for given frames, with those around each picture, are apart from the others: they are modulated as frames.
void MiniMaxH3Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope);
  const text::QwenReading reading{.after = {kTextLayers}, .pictures = text.pictures, .norms_last = false};
  const auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front();
  if (!options_.references) return write_text(scope, states);
  const auto places = at::arange(states.size(1), states.options().dtype(at::kFloat)).unsqueeze(0);
  nn::Tensors of_text, text_places, seen{states.narrow(1, 0, 0)}, seen_places{places.narrow(1, 0, 0)};
  int64_t next = 0;
  auto take = [&](nn::Tensors& into, nn::Tensors& places_of, int64_t end) {
    into.push_back(states.narrow(1, next, end - next));
    places_of.push_back(places.narrow(1, next, end - next));
    next = end;
  };
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  const int64_t num_around = is_named ? 0 : 1;  // a token begins a picture, and one ends it
  for (const auto& picture : text.pictures) {
    take(of_text, text_places, picture.first - num_around);
    take(seen, seen_places, picture.first + picture.num_tokens() + num_around);
  }
  take(of_text, text_places, states.size(1));
  write_text(scope, at::cat(of_text, 1));
  scope.write(kTextPlaces, at::cat(text_places, 1));
  scope.write(kSeenEmbedding, at::cat(seen, 1).contiguous());
  scope.write(kSeenPlaces, at::cat(seen_places, 1));
}

void MiniMaxH3Model::refine(pipeline::Scope& scope) {
  scope.uses(kText);
  auto states = scope.tensor("text_embedding").to(options_.dtype);
  auto mask = scope.tensor("text_mask").to(options_.device);
  const auto num_text = states.size(1);
  if (options_.references) {
    const auto seen = scope.tensor(kSeenEmbedding).to(states.options());
    states = at::cat({states, seen}, 1);
    mask = at::cat({mask, at::ones({seen.size(0), seen.size(1)}, mask.options())}, 1);
  }
  const auto tokens = loaded<Transformer>(kText).refine(states, mask);
  scope.write("text_tokens", tokens.narrow(1, 0, num_text));
  if (options_.references) scope.write(kSeenTokens, tokens.narrow(1, num_text, tokens.size(1) - num_text));
}

}  // namespace burnish::models::minimax_h3
