#include "train/objectives/preservation.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/count.h"
#include "base/input_error.h"
#include "data/captions.h"
#include "train/objectives/own_options.h"

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

}  // namespace

Preservation preservation_of(const models::OptionValues& own) {
  return {.of_class = own.get<bool>(kClassPreservation),
          .class_word = own.get<std::string>(kClassPreservationClass),
          .class_weight = own.get<double>(kClassPreservationWeight),
          .of_blank = own.get<bool>(kBlankPreservation),
          .blank_weight = own.get<double>(kBlankPreservationWeight),
          .drift_weight = own.get<double>(kDriftWeight),
          .masked_prior_weight = own.get<double>(kMaskedPriorWeight),
          .own_weight = own.get<double>(kOwnWeight)};
}

std::vector<models::Option> preservation_options() {
  return {{.name = kClassPreservation,
           .help = "hold what the model makes of captions with the class in place of the trigger word to what it made of them before "
                   "training",
           .otherwise = false,
           .elsewhere = ""},
          {.name = kClassPreservationClass,
           .help = "word of the class that takes the trigger word's place, as \"woman\"",
           .otherwise = std::string(),
           .elsewhere = ""},
          number_option(kClassPreservationWeight, "factor on that term", 1),
          {.name = kBlankPreservation,
           .help = "hold what the model makes of the empty prompt to what it made of it before training",
           .otherwise = false,
           .elsewhere = ""},
          number_option(kBlankPreservationWeight, "factor on that term", 1),
          number_option(kDriftWeight, "factor on the distance of each prediction from that of the model before training; 0 is off", 0),
          number_option(
              kMaskedPriorWeight,
              "of masked_loss: factor on the distance from the model before training, where the mask lets nothing count; 0 is off", 0),
          number_option(kOwnWeight, "factor on the samples' own losses beside such terms", 1)};
}

std::vector<OwnCondition> preservation_conditions() {
  auto by_class = [](const models::OptionValues& own) { return preservation_of(own).of_class; };
  auto by_blank = [](const models::OptionValues& own) { return preservation_of(own).of_blank; };
  return {{kClassPreservationClass, kClassPreservation, by_class},
          {kClassPreservationWeight, kClassPreservation, by_class},
          {kBlankPreservationWeight, kBlankPreservation, by_blank}};
}

void check_preservation(const Preservation& preservation, const RunForObjective& run) {
  if (preservation.of_class && preservation.class_word.empty())
    config_error("train", "{} puts a class in place of the trigger word; name it in {}, as \"woman\"", kClassPreservation,
                 kClassPreservationClass);
  if (preservation.of_class && !run.has_trigger_word)
    config_error("train", "{} puts a class in place of the trigger word, and no dataset has one; name it in trigger_word",
                 kClassPreservation);
  if (preservation.masked_prior_weight > 0 && !run.has_masks)
    config_error("train", "{} is about what masks leave out, and there are none; set masked_loss to column or alpha, or take it out",
                 kMaskedPriorWeight);
}

std::vector<Term> preservation_terms(const Preservation& preservation, const SampleLoss& of_samples) {
  auto held = [](const char* name, const std::string& prompt, double weight) {
    return Term{.name = name,
                .pass = {.prompt = prompt},
                .held_to = PassSum{.base = {.prompt = prompt, .before_training = true}},
                .weight = weight};
  };
  auto held_in_samples = [&](const char* name, double weight, const SampleLoss& loss) {
    auto term = held(name, "", weight);
    term.loss = loss;
    term.weighed_by = kLossWeight;
    return term;
  };
  std::vector<Term> terms;
  if (preservation.of_class) terms.push_back(held("class_preservation_loss", kOfClass, preservation.class_weight));
  if (preservation.of_blank) terms.push_back(held("blank_preservation_loss", kNegative, preservation.blank_weight));
  if (preservation.drift_weight > 0)
    terms.push_back(held_in_samples("drift_loss", preservation.drift_weight, {.masked = of_samples.masked}));
  if (preservation.masked_prior_weight > 0) {
    auto left_out = of_samples;
    left_out.masked.outside = true;
    terms.push_back(held_in_samples("masked_prior_loss", preservation.masked_prior_weight, left_out));
  }
  return terms;
}

std::string class_prompt(const std::string& class_word, const Samples& samples, const Pick& pick) {
  const auto trigger = pick.row == kNoRow ? "" : samples.set_of(samples.at(pick.row)).trigger_word;
  return data::with_other_word(samples.caption_of(pick), trigger, class_word);
}

std::vector<Input> preservation_inputs(const Preservation& preservation) {
  auto content = [word = preservation.class_word](const Samples& samples, const Pick& pick, const data::RowHashes&) {
    if (pick.row == kNoRow) return std::string();
    const auto text = class_prompt(word, samples, pick);
    return fmt::format("text of {} bytes {}", text.size(), text);
  };
  auto load = [word = preservation.class_word](const Samples& samples, const Pick& pick) -> pipeline::Value {
    return class_prompt(word, samples, pick);
  };
  return {{kOfClass + "prompt", true, content, load, /*follows_caption=*/true, kClassPreservationClass}};
}

std::vector<std::string> preservation_warnings(const Preservation& preservation, const Samples& samples) {
  if (!preservation.of_class) return {};
  auto lacks_word = [&](const Sample& sample) {
    if (samples.set_of(sample).of_class_set) return false;
    auto marked = data::with_other_word(sample.row.prompt, samples.set_of(sample).trigger_word, "\n");  // which stands in no caption
    return marked.find('\n') == marked.npos;
  };
  auto num = std::ranges::count_if(samples.list, lacks_word);
  if (num == 0) return {};
  return {
      fmt::format("{} no trigger word as a word of its own in the caption: {} holds the model to what it was under that very caption, "
                  "against what is learned",
                  count_of(num, "sample has", "samples have"), kClassPreservation)};
}

}  // namespace burnish::train
