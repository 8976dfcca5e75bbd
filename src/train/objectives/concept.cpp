#include "train/objectives/concept.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include "base/error.h"

namespace burnish::train {

namespace {

const char* const kTargetClass = "target_class";
const char* const kPositivePrompt = "positive_prompt";
const char* const kNegativePrompt = "negative_prompt";
const char* const kGuidance = "guidance_strength";
const char* const kAnchorClass = "anchor_class";
const char* const kAnchorWeight = "anchor_strength";
const char* const kErasedPrompt = "erase_prompt";
const char* const kNeutralPrompt = "neutral_prompt";
const char* const kErasing = "erase_strength";

// Prefixes of the values of these prompts. A slider's negative prompt is not the empty one, whose values are called negative.
const std::string kTarget = "target_", kPositive = "positive_", kOpposite = "opposite_", kAnchor = "anchor_", kErased = "erased_",
                  kNeutral = "neutral_";

models::Option prompt_option(const char* name, const char* help) {
  return {.name = name, .help = help, .otherwise = std::string(), .elsewhere = ""};
}

models::Option factor_option(const char* name, const char* help, double otherwise) {
  return {.name = name, .help = help, .otherwise = otherwise, .elsewhere = "", .least = 0};
}

bool has_anchor(const models::OptionValues& own) { return !own.get<std::string>(kAnchorClass).empty(); }

/// What is predicted under the anchor's prompt stays as it was.
Aim anchored(const std::string& name, double weight, double strength) {
  return {.name = name, .weight = weight, .pass = {.prompt = kAnchor, .strength = strength}, .base = kAnchor};
}

/// `tensor` with the mean and the standard deviation that `like` has over each sample.
at::Tensor spread_as(const at::Tensor& tensor, const at::Tensor& like) {
  auto beside = [&](const at::Tensor& of_sample_B) {
    std::vector<int64_t> shape(static_cast<size_t>(tensor.dim()), 1);
    shape[0] = tensor.size(0);
    return of_sample_B.view(shape);
  };
  auto mean_of = [&](const at::Tensor& t) { return beside(t.flatten(1).mean(1)); };
  const auto num_others = static_cast<double>(tensor.numel() / tensor.size(0) - 1);
  auto deviation_of = [&](const at::Tensor& t) { return beside(((t - mean_of(t)).square().flatten(1).sum(1) / num_others).sqrt()); };
  return (tensor - mean_of(tensor)) / (deviation_of(tensor) + 1e-8) * deviation_of(like) + mean_of(like);
}

}  // namespace

std::vector<Pass> Aim::passes() const {
  std::vector<Pass> all{pass, {.prompt = base, .before_training = true}};
  if (scale == 0) return all;
  for (const auto& prompt : {towards, away}) all.push_back({.prompt = prompt, .before_training = true});
  return all;
}

pipeline::Unit aim_unit(models::Model& model, const Aim& aim) {
  const auto& streams = model.latent_space().streams;
  auto before = [](const std::string& prompt, const auto& stream) { return kReference + prompt + stream.value("prediction"); };
  pipeline::Unit unit{aim.prefix() + "target", {}, {}, {}, {}};
  std::set<std::string> prompts{aim.base};
  if (aim.scale != 0) prompts.insert({aim.towards, aim.away});
  for (const auto& stream : streams) {
    for (const auto& prompt : prompts) unit.reads.push_back(before(prompt, stream));
    unit.writes.push_back(aim.prefix() + stream.value("target"));
  }
  unit.run = [&streams, aim, before](pipeline::Scope& s) {
    for (const auto& stream : streams) {
      const auto base = s.tensor(before(aim.base, stream)).to(at::kFloat);
      auto target = base;
      if (aim.scale != 0) {
        target = base + aim.scale * (s.tensor(before(aim.towards, stream)).to(at::kFloat) - s.tensor(before(aim.away, stream)));
        if (aim.spreads_as_base && base.numel() > 0) target = spread_as(target, base);
      }
      s.write(aim.prefix() + stream.value("target"), target);
    }
  };
  return unit;
}

Concept slider_of(const models::OptionValues& own) {
  // ai-toolkit compares each end with its target twice, once as what is strengthened and once as what is weakened, and halves no loss
  // where there is no anchor.
  Concept slider{.drawn = kTarget, .drawn_strength = 0};
  for (double end : {1.0, -1.0}) {
    const std::string name = end > 0 ? "positive" : "negative";
    slider.aims.push_back({.name = name + "_loss",
                           .weight = 2.0 / 3,
                           .pass = {.prompt = kTarget, .strength = end},
                           .base = kTarget,
                           .towards = kPositive,
                           .away = kOpposite,
                           .scale = end * own.get<double>(kGuidance),
                           .spreads_as_base = true});
    if (has_anchor(own)) slider.aims.push_back(anchored(name + "_anchor_loss", own.get<double>(kAnchorWeight) / 3, end));
  }
  return slider;
}

Concept erased_of(const models::OptionValues& own) {
  Concept erased{.drawn = kErased};
  erased.aims.push_back({.name = "erased_loss",
                         .pass = {.prompt = kErased},
                         .base = kNeutral,
                         .towards = kErased,
                         .away = kNegative,
                         .scale = -own.get<double>(kErasing)});
  if (has_anchor(own)) erased.aims.push_back(anchored("anchor_loss", own.get<double>(kAnchorWeight), 1));
  return erased;
}

std::vector<models::Option> concept_options() {
  return {prompt_option(kAnchorClass, "prompt of what is to stay as it is, as \"a photo of a dog\"; none: nothing is held"),
          factor_option(kAnchorWeight, "factor on how far that is from what it was", 1)};
}

std::vector<models::Option> slider_options() {
  return {prompt_option(kTargetClass, "prompt of what the slider is for, as \"a photo of a person\""),
          prompt_option(kPositivePrompt, "prompt of the end at strength 1, as \"a photo of a very old person\""),
          prompt_option(kNegativePrompt, "prompt of the end at strength -1, as \"a photo of a very young person\""),
          factor_option(kGuidance, "how far each end lies from the middle, in differences of these two", 3)};
}

std::vector<models::Option> erasing_options() {
  return {
      prompt_option(kErasedPrompt, "prompt of what the model is to forget"),
      prompt_option(kNeutralPrompt, "prompt of what it is to make instead; empty: what it makes of no prompt"),
      factor_option(kErasing, "how far it is led away from what it made, in differences from no prompt; 0: no further than instead", 1)};
}

std::vector<OwnCondition> concept_conditions() { return {{kAnchorWeight, kAnchorClass, has_anchor}}; }

std::vector<Input> concept_inputs(const models::OptionValues& own) {
  const std::map<std::string, const char*> options{{kTarget, kTargetClass}, {kPositive, kPositivePrompt}, {kOpposite, kNegativePrompt},
                                                   {kAnchor, kAnchorClass}, {kErased, kErasedPrompt},     {kNeutral, kNeutralPrompt}};
  std::vector<Input> inputs;
  for (const auto& [prefix, option] : options) {
    const auto text = own.get<std::string>(option);
    auto content = [text](const View& view) {
      return view.sample == nullptr ? std::string() : fmt::format("text of {} bytes {}", text.size(), text);
    };
    inputs.push_back({prefix + "prompt", true, content, [text](const View&) -> pipeline::Value { return text; }, false, option});
  }
  return inputs;
}

void check_slider(const RunForObjective& run) {
  if (run.own.get<std::string>(kPositivePrompt) == run.own.get<std::string>(kNegativePrompt))
    config_error("train", "a slider lies between two ends, which prompts tell apart; say what they are in {} and {}", kPositivePrompt,
                 kNegativePrompt);
}

void check_erasing(const RunForObjective& run) {
  if (run.own.get<std::string>(kErasedPrompt).empty()) config_error("train", "say in {} what the model is to forget", kErasedPrompt);
  if (run.own.get<double>(kErasing) == 0 && run.own.get<std::string>(kErasedPrompt) == run.own.get<std::string>(kNeutralPrompt))
    config_error("train", "{} is {}, and {} 0 leads nowhere else; name another one, or raise it", kNeutralPrompt, kErasedPrompt, kErasing);
}

}  // namespace burnish::train
