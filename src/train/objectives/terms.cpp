#include "train/objectives/terms.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/count.h"
#include "base/input_error.h"
#include "data/captions.h"

namespace burnish::train {

namespace {

const char* const kClassPreservation = "diff_output_preservation";
const char* const kClassPreservationClass = "diff_output_preservation_class";
const char* const kClassPreservationWeight = "diff_output_preservation_multiplier";
const char* const kBlankPreservation = "blank_prompt_preservation";
const char* const kBlankPreservationWeight = "blank_prompt_preservation_multiplier";
const char* const kDriftWeight = "drift_loss_weight";
const char* const kMaskedPriorWeight = "masked_prior_preservation_weight";
const char* const kOwnWeight = "sft_loss_weight";

models::Option weight_option(const char* name, const char* help, double otherwise) {
  return {.name = name, .help = help, .otherwise = otherwise, .elsewhere = "", .least = 0};
}

}  // namespace

std::vector<models::Option> term_options() {
  return {{.name = kClassPreservation,
           .help = "hold what the model makes of captions with the class in place of the trigger word to what it made of them before "
                   "training",
           .otherwise = false,
           .elsewhere = ""},
          {.name = kClassPreservationClass,
           .help = "word of the class that takes the trigger word's place, as \"woman\"",
           .otherwise = std::string(),
           .elsewhere = ""},
          weight_option(kClassPreservationWeight, "factor on that term", 1),
          {.name = kBlankPreservation,
           .help = "hold what the model makes of the empty prompt to what it made of it before training",
           .otherwise = false,
           .elsewhere = ""},
          weight_option(kBlankPreservationWeight, "factor on that term", 1),
          weight_option(kDriftWeight, "factor on the distance of each prediction from that of the model before training; 0 is off", 0),
          weight_option(
              kMaskedPriorWeight,
              "of masked_loss: factor on the distance from the model before training, where the mask lets nothing count; 0 is off", 0),
          weight_option(kOwnWeight, "factor on the samples' own losses beside such terms", 1)};
}

std::vector<OwnCondition> term_conditions() {
  auto by_class = [](const models::OptionValues& own) { return own.get<bool>(kClassPreservation); };
  auto by_blank = [](const models::OptionValues& own) { return own.get<bool>(kBlankPreservation); };
  return {{kClassPreservationClass, kClassPreservation, by_class},
          {kClassPreservationWeight, kClassPreservation, by_class},
          {kBlankPreservationWeight, kBlankPreservation, by_blank}};
}

void check_terms(const RunForObjective& run) {
  if (run.own.get<bool>(kClassPreservation) && run.own.get<std::string>(kClassPreservationClass).empty())
    config_error("train", "{} puts a class in place of the trigger word; name it in {}, as \"woman\"", kClassPreservation,
                 kClassPreservationClass);
  if (run.own.get<bool>(kClassPreservation) && !run.has_trigger_word)
    config_error("train", "{} puts a class in place of the trigger word, and no dataset has one; name it in trigger_word",
                 kClassPreservation);
  if (run.own.get<double>(kMaskedPriorWeight) > 0 && !run.has_masks)
    config_error("train", "{} is about what masks leave out, and there are none; set masked_loss to column or alpha, or take it out",
                 kMaskedPriorWeight);
}

std::vector<Term> terms_of(const ObjectiveSettings& settings) {
  const auto& own = settings.own;
  std::vector<Term> terms;
  if (own.get<bool>(kClassPreservation))
    terms.push_back({"class_preservation_loss", own.get<double>(kClassPreservationWeight), {kOfClass}, {kOfClass, true}});
  if (own.get<bool>(kBlankPreservation))
    terms.push_back({"blank_preservation_loss", own.get<double>(kBlankPreservationWeight), {kNegative}, {kNegative, true}});
  if (auto weight = own.get<double>(kDriftWeight); weight > 0)
    terms.push_back({"drift_loss", weight, {}, {"", true}, {{}, settings.sample_loss.masked}, true});
  if (auto weight = own.get<double>(kMaskedPriorWeight); weight > 0) {
    auto loss = settings.sample_loss;
    loss.masked.outside = true;
    terms.push_back({"masked_prior_loss", weight, {}, {"", true}, loss, true});
  }
  return terms;
}

std::string class_prompt(const models::OptionValues& own, const View& view) {
  const auto& trigger = view.sample == nullptr ? std::string() : view.sample->trigger_word;
  return data::with_other_word(caption_of(view), trigger, own.get<std::string>(kClassPreservationClass));
}

std::vector<Input> term_inputs(const models::OptionValues& own) {
  auto content = [own](const View& view) {
    if (view.sample == nullptr) return std::string();
    const auto text = class_prompt(own, view);
    return fmt::format("text of {} bytes {}", text.size(), text);
  };
  auto load = [own](const View& view) -> pipeline::Value { return class_prompt(own, view); };
  return {{kOfClass + "prompt", true, content, load, /*follows_caption=*/true, kClassPreservationClass}};
}

std::vector<std::string> term_warnings(const models::OptionValues& own, const Samples& samples) {
  if (!own.get<bool>(kClassPreservation)) return {};
  auto lacks_word = [&](const SampleInfo& sample) {
    if (samples.sets.at(sample.set).of_class_set) return false;
    auto marked = data::with_other_word(sample.prompt, sample.trigger_word, "\n");  // which stands in no caption
    return marked.find('\n') == marked.npos;
  };
  auto num = std::ranges::count_if(samples.list, lacks_word);
  if (num == 0) return {};
  return {
      fmt::format("{} no trigger word as a word of its own in the caption: {} holds the model to what it was under that very caption, "
                  "against what is learned",
                  count_of(num, "sample has", "samples have"), kClassPreservation)};
}

bool has_total(const ObjectiveSettings& settings) { return !terms_of(settings).empty() || settings.own.get<double>(kOwnWeight) != 1; }

pipeline::Unit total_unit(const ObjectiveSettings& settings) {
  const auto terms = terms_of(settings);
  pipeline::Unit unit{"total", {"loss", kLossWeight}, {kTotalLoss}, {}, {}};
  for (const auto& term : terms) unit.reads.push_back(term.name);
  unit.run = [terms, factor = settings.own.get<double>(kOwnWeight)](pipeline::Scope& s) {
    auto weighed_B = factor * s.tensor("loss");
    for (const auto& term : terms) {
      if (term.is_weighed) weighed_B = weighed_B + term.weight * s.tensor(term.name);
    }
    auto total_B = weighed_B * s.tensor(kLossWeight);
    for (const auto& term : terms) {
      if (!term.is_weighed) total_B = total_B + term.weight * s.tensor(term.name);
    }
    s.write(kTotalLoss, total_B);
  };
  return unit;
}

}  // namespace burnish::train
