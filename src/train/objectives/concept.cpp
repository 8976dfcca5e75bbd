#include "train/objectives/concept.h"

#include <ATen/TensorOperators.h>

#include <set>

#include "train/objectives/sample_loss.h"

namespace burnish::train {

namespace {

/// What is predicted under the anchor's prompt stays as it was.
Aim anchored(const std::string& name, double weight, double strength) {
  return {.name = name, .weight = weight, .weighed_by = kAnchorWeight, .pass = {.prompt = kAnchor, .strength = strength}, .base = kAnchor};
}

/// `tensor` with the mean and the standard deviation that `like` has over each sample.
at::Tensor spread_as(const at::Tensor& tensor, const at::Tensor& like) {
  auto mean_of = [&](const at::Tensor& t) { return beside(t.flatten(1).mean(1), t); };
  const auto num_others = static_cast<double>(tensor.numel() / tensor.size(0) - 1);
  auto deviation_of = [&](const at::Tensor& t) { return beside(((t - mean_of(t)).square().flatten(1).sum(1) / num_others).sqrt(), t); };
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
  if (aim.scale != 0) {
    prompts.insert({aim.towards, aim.away});
    unit.reads.push_back(aim.strength);
  }
  for (const auto& stream : streams) {
    for (const auto& prompt : prompts) unit.reads.push_back(before(prompt, stream));
    unit.writes.push_back(aim.prefix() + stream.value("target"));
  }
  unit.run = [&streams, aim, before](pipeline::Scope& s) {
    for (const auto& stream : streams) {
      const auto base = s.tensor(before(aim.base, stream)).to(at::kFloat);
      auto target = base;
      if (aim.scale != 0) {
        const auto led = s.tensor(before(aim.towards, stream)).to(at::kFloat) - s.tensor(before(aim.away, stream));
        target = base + aim.scale * beside(s.tensor(aim.strength), led) * led;
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
                           .scale = end,
                           .strength = kGuidance,
                           .spreads_as_base = true});
    if (has_anchor(own)) slider.aims.push_back(anchored(name + "_anchor_loss", 1.0 / 3, end));
  }
  return slider;
}

Concept erased_of(const models::OptionValues& own) {
  Concept erased{.drawn = kTarget};
  erased.aims.push_back({.name = "erased_loss",
                         .pass = {.prompt = kTarget},
                         .base = kNeutral,
                         .towards = kErased,
                         .away = kNegative,
                         .scale = leads_away(own) ? -1.0 : 0.0,
                         .strength = kErasing});
  if (has_anchor(own)) erased.aims.push_back(anchored("anchor_loss", 1, 1));
  return erased;
}

}  // namespace burnish::train
