#include "train/objectives/concept_options.h"

#include <ATen/ops/full.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <type_traits>

#include "base/input_error.h"
#include "base/text.h"
#include "train/objectives/own_options.h"
#include "train/objectives/passes.h"
#include "train/subject/option_rows.h"

namespace burnish::train {

namespace {

/// Returns the options of single concepts.
std::vector<models::Option> options_of_one() {
  std::vector<models::Option> all;
  for (const auto& options : {concept_options(), slider_options(), erasing_options()}) {
    for (const auto& option : options) {
      const bool is_there = std::ranges::find(all, option.name, &models::Option::name) != all.end();
      if (option.name != kConceptConfig && !is_there) all.push_back(option);
    }
  }
  return all;
}

config::Fields fields_of(ConceptChoice& one) {
  config::Fields f;
  for (const auto& option : options_of_one()) option_row(f, option, one.own.at(option.name), option.help);
  f("loss_weight", one.share.loss_weight, "factor on the loss of its samples").at_least(0);
  f("num_repeats", one.share.num_repeats, "visits in an epoch");
  return f;
}

/// Returns what of several concepts a sample learns: a run has each of its datasets once for each concept, one behind the other.
template <class T>
const T& of_sample(const std::vector<T>& of_concepts, const Sample& sample) {
  return of_concepts[sample.row.subset % of_concepts.size()];
}

/// Makes the input of a number of each concept.
Input number_input(const std::string& name, std::vector<double> numbers) {
  auto content = [numbers](const Samples& samples, const Pick& pick, const data::RowHashes&) {
    return pick.row == kNoRow ? std::string() : fmt::format("number {}", of_sample(numbers, samples.at(pick.row)));
  };
  auto load = [numbers](const Samples& samples, const Pick& pick) -> pipeline::Value {
    return at::full({1}, of_sample(numbers, samples.at(pick.row)), at::kFloat);
  };
  return {name, true, content, load};
}

/// Refuses what the concepts of a file say of the other task.
void check_all_count(const ConceptChoice& one, const std::vector<models::Option>& of_other, const std::vector<models::Option>& of_this) {
  for (const auto& option : of_other) {
    if (std::ranges::find(of_this, option.name, &models::Option::name) != of_this.end()) continue;
    if (one.own.at(option.name) != option.otherwise)
      config_error("train", "{} of a concept is for task {}; take it out, or name that task", option.name,
                   join(objectives_with(option.name), " and "));
  }
}

}  // namespace

ConceptOptions concept_of(const models::OptionValues& own) {
  auto text = [&](const char* option) { return own.get<std::string>(option); };
  return {.target = text(text(kTargetClass).empty() ? kErasedPrompt : kTargetClass),
          .positive = text(kPositivePrompt),
          .opposite = text(kNegativePrompt),
          .anchor = text(kAnchorClass),
          .erased = text(kErasedPrompt),
          .neutral = text(kNeutralPrompt),
          .guidance = own.get<double>(kGuidance),
          .anchor_weight = own.get<double>(kAnchorWeight),
          .erasing = own.get<double>(kErasing)};
}

std::vector<ConceptChoice> concepts_of(const models::OptionValues& own) {
  const auto file = own.get<std::string>(kConceptConfig);
  if (file.empty()) return {{.own = own, .options = concept_of(own)}};
  std::deque<ConceptChoice> read;
  config::read_toml_items(file, "concepts", "prompts", [&] { return fields_of(read.emplace_back(ConceptChoice{own})); });
  if (read.empty()) config_error("train", "{} holds no [[concepts]]", file);
  for (auto& [values, share, options] : read) {
    options = concept_of(values);
    if (!(share.num_repeats > 0 && std::isfinite(share.num_repeats) && share.loss_weight >= 0 && std::isfinite(share.loss_weight)))
      config_error("train", "{}: num_repeats of a concept must be more than 0, and loss_weight at least 0; they are {} and {}", file,
                   share.num_repeats, share.loss_weight);
  }
  return {read.begin(), read.end()};
}

bool any_anchor(const std::vector<ConceptChoice>& concepts) {
  return std::ranges::any_of(concepts, [](const auto& one) { return one.options.has_anchor(); });
}
bool any_direction(const std::vector<ConceptChoice>& concepts) {
  return std::ranges::any_of(concepts, [](const auto& one) { return one.options.erasing != 0; });
}

std::vector<models::Option> concept_options() {
  return {text_option(kConceptConfig,
                      "TOML file of several concepts that one adapter learns: a [[concepts]] table each, of options of this task, "
                      "loss_weight and num_repeats, which begins as the run's options"),
          text_option(kTargetClass,
                      "prompt under which it is learned: of a slider what it is for, as \"a photo of a person\"; of an erased concept "
                      "where it is forgotten, which is erase_prompt by itself"),
          text_option(kAnchorClass, "prompt of what is to stay as it is, as \"a photo of a dog\"; none: nothing is held"),
          number_option(kAnchorWeight, "factor on how far that is from what it was", 1)};
}

std::vector<models::Option> slider_options() {
  return {text_option(kPositivePrompt, "prompt of the end at strength 1, as \"a photo of a very old person\""),
          text_option(kNegativePrompt, "prompt of the end at strength -1, as \"a photo of a very young person\""),
          number_option(kGuidance, "how far each end lies from the middle, in differences of these two", 3)};
}

std::vector<models::Option> erasing_options() {
  auto strength =
      number_option(kErasing,
                    "how far it is led away from what it made, in differences from no prompt; 0: no further than instead; below "
                    "0 it is led there, and so strengthened",
                    1);
  strength.least = std::nullopt;
  return {text_option(kErasedPrompt, "prompt of what the model is to forget"),
          text_option(kNeutralPrompt, "prompt of what it is to make instead; empty: what it makes of no prompt"), strength};
}

std::vector<OwnCondition> concept_conditions() {
  return {{kAnchorWeight, kAnchorClass, [](const models::OptionValues& own) { return any_anchor(concepts_of(own)); }}};
}

std::vector<Share> concept_shares(const models::OptionValues& own) {
  std::vector<Share> shares;
  for (const auto& one : concepts_of(own)) shares.push_back(one.share);
  return shares;
}

std::vector<Input> concept_inputs(const models::OptionValues& own) {
  const auto concepts = concepts_of(own);
  auto each = [&](auto value_of) {
    std::vector<std::decay_t<std::invoke_result_t<decltype(value_of), const ConceptOptions&>>> values;
    for (const auto& one : concepts) values.push_back(std::invoke(value_of, one.options));
    return values;
  };
  using Text = std::string ConceptOptions::*;
  auto prompt_of = [&](const std::string& prefix, const char* option, Text text) {
    auto input = prompt_input(prefix, [texts = each(text)](const Sample& sample) { return of_sample(texts, sample); });
    input.option = option;
    return input;
  };
  return {prompt_of(kTarget, kTargetClass, &ConceptOptions::target),
          prompt_of(kPositive, kPositivePrompt, &ConceptOptions::positive),
          prompt_of(kOpposite, kNegativePrompt, &ConceptOptions::opposite),
          prompt_of(kAnchor, kAnchorClass, &ConceptOptions::anchor),
          prompt_of(kErased, kErasedPrompt, &ConceptOptions::erased),
          prompt_of(kNeutral, kNeutralPrompt, &ConceptOptions::neutral),
          number_input(kGuidance, each(&ConceptOptions::guidance)),
          number_input(kErasing, each(&ConceptOptions::erasing)),
          number_input(kAnchorWeight, each([](const ConceptOptions& one) { return one.has_anchor() ? one.anchor_weight : 0.0; }))};
}

std::string concept_fingerprint(const std::vector<models::Option>& options, const models::OptionValues& own) {
  std::vector<std::string> texts;
  for (auto& one : concepts_of(own)) {
    one.own.at(kConceptConfig) = std::string();
    texts.push_back(given_options(options, one.own));
    if (one.share.loss_weight != 1) texts.back() += fmt::format(" loss_weight {}", one.share.loss_weight);
    if (one.share.num_repeats != 1) texts.back() += fmt::format(" num_repeats {}", one.share.num_repeats);
  }
  return join(texts, " and ");
}

void check_slider(const RunForObjective& run) {
  for (const auto& one : concepts_of(run.own)) {
    check_all_count(one, erasing_options(), slider_options());
    if (one.options.positive == one.options.opposite)
      config_error("train", "a slider lies between two ends, which prompts tell apart; say what they are in {} and {}", kPositivePrompt,
                   kNegativePrompt);
  }
}

void check_erasing(const RunForObjective& run) {
  for (const auto& one : concepts_of(run.own)) {
    check_all_count(one, slider_options(), erasing_options());
    const auto& options = one.options;
    if (options.erased.empty()) config_error("train", "say in {} what the model is to forget", kErasedPrompt);
    if (!std::isfinite(options.erasing)) config_error("train", "{} is {}, and must be a number", kErasing, options.erasing);
    if (options.erasing == 0 && options.target == options.neutral)
      config_error("train", "{} is {}, and {} 0 leads nowhere else; name another one, or raise it", kNeutralPrompt, options.target,
                   kErasing);
  }
}

}  // namespace burnish::train
