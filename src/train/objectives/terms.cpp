#include "train/objectives/terms.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace burnish::train {

namespace {

/// Returns `tensor` with the mean and the standard deviation that `like` has over each sample.
at::Tensor spread_as(const at::Tensor& tensor, const at::Tensor& like) {
  auto mean_of = [&](const at::Tensor& t) { return beside(t.flatten(1).mean(1), t); };
  const auto num_others = static_cast<double>(tensor.numel() / tensor.size(0) - 1);
  auto deviation_of = [&](const at::Tensor& t) { return beside(((t - mean_of(t)).square().flatten(1).sum(1) / num_others).sqrt(), t); };
  return (tensor - mean_of(tensor)) / (deviation_of(tensor) + 1e-8) * deviation_of(like) + mean_of(like);
}

std::string prediction_of(const Pass& pass, const models::LatentSpace::Stream& stream) {
  return pass.prefix() + stream.value("prediction");
}

/// Computes the sum for a stream, fp32.
at::Tensor evaluate(const PassSum& sum, const models::LatentSpace::Stream& stream, const pipeline::Scope& scope) {
  const auto base = scope.tensor(prediction_of(sum.base, stream)).to(at::kFloat);
  auto led = base;
  for (const auto& along : sum.directions) {
    const auto way = scope.tensor(prediction_of(along.towards, stream)).to(at::kFloat) - scope.tensor(prediction_of(along.away, stream));
    led = led + along.factor * beside(scope.tensor(along.amount), way) * way;
  }
  return sum.spreads_as_base && base.numel() > 0 ? spread_as(led, base) : led;
}

/// Makes the unit that writes a sum of every stream, as a target behind the prefix.
pipeline::Unit sum_unit(models::Model& model, const PassSum& sum, const std::string& prefix) {
  const auto& streams = model.latent_space().streams;
  pipeline::Unit unit{prefix + "target", {}, {}, {}, {}};
  for (const auto& along : sum.directions) unit.reads.push_back(along.amount);
  for (const auto& stream : streams) {
    std::set<std::string> predictions;
    for (const auto& pass : sum.passes()) predictions.insert(prediction_of(pass, stream));
    unit.reads.insert(unit.reads.end(), predictions.begin(), predictions.end());
    unit.writes.push_back(prefix + stream.value("target"));
  }
  unit.run = [&streams, sum, prefix](pipeline::Scope& s) {
    for (const auto& stream : streams) s.write(prefix + stream.value("target"), evaluate(sum, stream, s));
  };
  return unit;
}

/// Makes the unit that writes, of every stream, what the term compares under guidance or with class targets, of what it would compare
/// without them.
pipeline::Unit judging_unit(models::Model& model, const Term& term, const Compared& plain) {
  const auto& streams = model.latent_space().streams;
  const auto& guidance = term.guidance;
  const auto& of_class = term.class_target;
  pipeline::Unit unit{"judge", {}, {}, {}, {}};
  for (const auto& stream : streams) {
    unit.reads.insert(unit.reads.end(), {plain.prediction_of(stream), plain.target_of(stream)});
    unit.writes.insert(unit.writes.end(), {kJudged + stream.value("prediction"), kJudged + stream.value("target")});
    if (guidance.is_on()) unit.reads.push_back(prediction_of(guidance.away(), stream));
    if (of_class.is_model) unit.reads.push_back(prediction_of(ClassTarget::pass(), stream));
  }
  if (guidance.is_on()) unit.reads.emplace_back(kTrainingScale);
  if (of_class.is_model) unit.reads.emplace_back(kOfClassSet);
  unit.run = [=, &streams](pipeline::Scope& s) {
    for (const auto& stream : streams) {
      const auto& prediction = s.tensor(plain.prediction_of(stream));
      ComparedTensors compared{prediction, s.tensor(plain.target_of(stream))};
      if (guidance.is_on() && prediction.numel() > 0)
        compared = guided(guidance, compared, s.tensor(prediction_of(guidance.away(), stream)), s.tensor(kTrainingScale));
      if (of_class.is_model)
        compared =
            held_to_model(of_class, compared, prediction, s.tensor(prediction_of(ClassTarget::pass(), stream)), s.tensor(kOfClassSet));
      s.write(kJudged + stream.value("prediction"), compared.prediction);
      s.write(kJudged + stream.value("target"), compared.target);
    }
  };
  return unit;
}

}  // namespace

std::vector<Pass> PassSum::passes() const {
  std::vector<Pass> all{base};
  for (const auto& along : directions) all.insert(all.end(), {along.towards, along.away});
  return all;
}

std::vector<Pass> passes_of(const std::vector<Term>& terms) {
  std::vector<Pass> all;
  for (const auto& term : terms) {
    all.push_back(term.pass);
    if (term.held_to) std::ranges::copy(term.held_to->passes(), std::back_inserter(all));
    if (term.guidance.is_on()) all.push_back(term.guidance.away());
    if (term.class_target.is_model) all.push_back(ClassTarget::pass());
  }
  std::erase_if(all, [](const auto& pass) { return pass.prefix().empty(); });
  return all;
}

std::vector<std::string> names_of(const std::vector<Term>& terms) {
  std::vector<std::string> names;
  for (const auto& term : terms) names.push_back(term.name);
  return names;
}

pipeline::Units term_units(models::Model& model, const Term& term) {
  pipeline::Units units;
  Compared compared{.prediction_prefix = term.pass.prefix()};
  if (term.held_to && term.held_to->directions.empty()) {
    compared.target_prefix = term.held_to->base.prefix();
    compared.target = "prediction";
  } else if (term.held_to) {
    compared.target_prefix = term.name + "_of_";
    units.push_back(sum_unit(model, *term.held_to, compared.target_prefix));
  }
  if (term.guidance.is_on() || term.class_target.is_model) {
    units.push_back(judging_unit(model, term, compared));
    compared = {kJudged, kJudged};
  }
  units.push_back(loss_unit(model, term.loss, term.name, compared));
  return units;
}

pipeline::Unit total_unit(const std::string& name, const std::string& result, const std::vector<Term>& terms) {
  pipeline::Unit unit{name, {}, {result}, {}, {}};
  for (const auto& term : terms) {
    unit.reads.push_back(term.name);
    if (!term.weighed_by.empty() && !contains(unit.reads, term.weighed_by)) unit.reads.push_back(term.weighed_by);
  }
  unit.run = [terms, result](pipeline::Scope& s) {
    at::Tensor total_B;
    auto add = [&](const at::Tensor& more_B) { total_B = total_B.defined() ? total_B + more_B : more_B; };
    for (const auto& term : terms) {
      if (term.weighed_by == kLossWeight) add(term.weight * s.tensor(term.name));
    }
    if (total_B.defined()) total_B = total_B * s.tensor(kLossWeight);
    for (const auto& term : terms) {
      if (term.weighed_by == kLossWeight) continue;
      const auto term_B = term.weight * s.tensor(term.name);
      add(term.weighed_by.empty() ? term_B : term_B * s.tensor(term.weighed_by));
    }
    s.write(result, total_B);
  };
  return unit;
}

}  // namespace burnish::train
