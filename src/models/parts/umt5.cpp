#include "models/parts/umt5.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "models/blocks/padding_row.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/shared_units.h"
#include "models/parts/vocabulary.h"
#include "tokenizers/t5.h"
#include "tokenizers/tidy_text.h"

namespace burnish::models {

namespace {

using Find = DiffsynthValue::Find;

const std::string kContext = "context";
/// Tokens of a text as these models were trained.
constexpr int64_t kTextLength = 512;

/// Texts are filled up with rows of zeros there, of which one stands for all here: how many rows are the text's own.
int64_t length_of(const at::Tensor& context_BTE) {
  auto of_text = context_BTE[0].ne(0).any(1).nonzero();
  return of_text.numel() == 0 ? 0 : of_text.max().item<int64_t>() + 1;
}

pipeline::Value text_of(const Find& find) {
  auto context = one_of_cache(find, kContext, 3);
  const auto length = length_of(context);
  return context.narrow(1, 0, std::min(length + 1, context.size(1))).contiguous();
}

pipeline::Value counts_of(const Find& find) {
  auto context = one_of_cache(find, kContext, 3);
  const auto length = length_of(context);
  auto counts = at::ones({1, length}, context.options().dtype(at::kFloat));
  if (const auto missing = context.size(1) - length; missing > 0)
    counts = at::constant_pad_nd(counts, {0, 1}, static_cast<double>(missing));
  return counts;
}

}  // namespace

text::T5Config umt5_xxl() { return {.vocab_size = 256384, .bias_by_layer = true}; }

TextPart umt5_part(const Source& source, const text::T5Config& config, const ModelFiles& files, const ModelOptions& options) {
  const TextUse use{.name = kUmt5, .kohya = "lora_te_", .comfyui = "text_encoders.umt5xxl.transformer.", .length = kTextLength};
  auto part = t5_part(source, config, use, files, options);
  auto& tokenizer = *part.recipe.tokenizer;
  const bool is_beside = !options.tokenizer_path.empty() || files.in_pipeline(use.tokenizer);
  if (is_beside) return part;
  if (auto original = files.in_pipeline("google/umt5-xxl")) {
    tokenizer.folder = [folder = *original] { return folder; };
  } else if (auto name = source.entry != nullptr ? vocabulary_in(*source.entry) : ""; !name.empty()) {
    const auto tensors = *source.entry->tensors;
    tokenizer.folder = [tensors] { return tensors.files().front()->path(); };
    tokenizer.load = [tensors, name](const auto& from) {
      auto bytes = tensors.tensor(name).contiguous();
      return tokenizers::t5_of_bytes({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, from);
    };
  }
  return part;
}

void encode_by_umt5(pipeline::Scope& scope, Components& components, c10::Device device, const std::string& text, const std::string& name) {
  scope.uses(kUmt5);
  const auto limit = token_limit(components, kUmt5);
  auto encoded = components.tokenizer(kUmt5).encode_padded(tokenizers::tidy_text(text), limit);
  bool is_named = components.source(kUmt5).entry->is_sizes;  // of which no text is known; it may be as long as any
  if (!is_named) encoded.ids.resize(static_cast<size_t>(encoded.num_tokens));
  auto states = static_cast<text::T5Encoder&>(components.module(kUmt5)).forward(as_batch(encoded.ids, device));
  CountedRows text_rows{states, at::ones({1, states.size(1)}, states.options().dtype(at::kFloat))};
  if (states.size(1) < limit) text_rows = with_padding_row(text_rows, limit);
  scope.write(name + "_embedding", text_rows.rows_BTE);
  scope.write(name + "_counts", text_rows.counts_BT);
}

void add_diffsynth_text(Names& names) {
  names.values["text_embedding"].diffsynth = {.name = kContext, .make = text_of};
  names.values["text_counts"].diffsynth = {.name = kContext, .make = counts_of};
}

}  // namespace burnish::models
