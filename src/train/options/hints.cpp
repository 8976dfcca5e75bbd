#include "train/options/hints.h"

#include <fmt/core.h>

namespace burnish::train {

namespace {

// Well beyond what anybody publishes: a hint that speaks up at usual rates is not read.
constexpr double kHighForAdapters = 5e-3, kHighForWholeModels = 5e-5, kLowForProdigy = 0.05;

}  // namespace

std::string learning_rate_hint(const TrainOptions& o) {
  if (o.optimizer.starts_with("prodigy")) {
    if (o.learning_rate >= kLowForProdigy) return "";
    return fmt::format("learning_rate {}: {} finds the rate and multiplies it by this, for which 1 is usual", o.learning_rate, o.optimizer);
  }
  bool whole = !o.trainable_models.empty() && o.lora_base_model.empty() && o.init == "pretrained";
  if (whole && o.learning_rate > kHighForWholeModels)
    return fmt::format("learning_rate {} is high for a whole model, which may forget what it knows; 1e-5 is usual", o.learning_rate);
  const bool is_word_alone = o.embedding.has_words() && o.lora_base_model.empty() && o.lora_checkpoint.empty();
  if (o.trainable_models.empty() && !is_word_alone && o.learning_rate > kHighForAdapters)
    return fmt::format("learning_rate {} is high for an adapter; 1e-4 is usual", o.learning_rate);
  return "";
}

}  // namespace burnish::train
