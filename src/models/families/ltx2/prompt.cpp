#include <ATen/ops/ones.h>

#include "models/families/ltx2/connectors.h"
#include "models/families/ltx2/model.h"
#include "models/parts/shared_units.h"
#include "tokenizers/white_space.h"

// LTX-2 reads all states of a text encoder, which a projection sums up; connectors make of that what each stream reads.
namespace burnish::models::ltx2 {

/// Of a text the features of each token are kept, which are the same for both streams in 2.0.
void Ltx2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  scope.uses(kProjectionPart);
  auto ids = components_.tokenizer(kEncoder).encode(tokenizers::stripped(scope.text("prompt")));
  const auto limit = token_limit(components_, kEncoder);
  // A model that is only named has no text that is known; it may be as long as any.
  if (components_.source(kEncoder).entry->is_sizes || std::ssize(ids) > limit) ids.resize(static_cast<size_t>(limit));
  Connectors::Features features(loaded<Connectors>(kProjectionPart));
  loaded<text::GemmaEncoder>(kEncoder).each_state(as_batch(ids, options_.device),
                                                  [&](int64_t, const at::Tensor& state) { features.add(state); });
  auto of_streams = features.take();
  for (auto& of_stream : of_streams) of_stream = of_stream.to(options_.dtype);
  scope.write("text_embedding", of_streams.front());
  scope.write(kSoundText, of_streams.back());
  scope.write("text_mask", at::ones({1, of_streams.front().size(1)}, of_streams.front().options()));
}

/// The transformer reads as many tokens of each text, however long it is: learned ones stand behind its own.
void Ltx2Model::connect(pipeline::Scope& scope) {
  scope.uses(kConnectorsPart);
  auto here = [&](const std::string& name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  const auto frames = here("text_embedding"), sound = here(kSoundText);
  const auto tokens = loaded<Connectors>(kConnectorsPart).forward(frames, sound, here("text_mask"), std::max(kTextLength, frames.size(1)));
  scope.write(connected_names()[0], tokens[0]);
  scope.write(connected_names()[1], tokens[1]);
}

void Ltx2Model::project(pipeline::Scope& scope) {
  scope.uses(kText);
  auto& text = loaded<Transformer>(kText);
  auto here = [&](const std::string& name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  scope.write(kTextTokens, text.project(here(connected_names()[0]), Transformer::Stream::frames));
  scope.write(kSoundTextTokens, text.project(here(connected_names()[1]), Transformer::Stream::sound));
}

}  // namespace burnish::models::ltx2
