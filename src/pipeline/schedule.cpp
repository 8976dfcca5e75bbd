#include "pipeline/schedule.h"

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"

namespace burnish::pipeline {

namespace {

bool any_in(const std::vector<std::string>& names, const std::set<std::string>& set) {
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return set.contains(name); });
}

void add_new(std::vector<std::string>& list, const std::string& name) {
  if (!contains(list, name)) list.push_back(name);
}

/// Units in their order, cut in two: those that may run early, and the others with all that reads or rewrites what they touch.
struct Split {
  Units early, late;
  std::vector<std::string> carried;  ///< values that early units write and late ones read
};

Split split(const Units& units, const std::function<bool(const Unit&)>& may_run_early) {
  std::set<std::string> touched, written_late, written_early;
  Split result;
  for (const auto& unit : units) {
    if (may_run_early(unit) && !any_in(unit.writes, touched) && !any_in(unit.reads, written_late)) {
      result.early.push_back(unit);
      written_early.insert(unit.writes.begin(), unit.writes.end());
      continue;
    }
    for (const auto& name : unit.reads) {
      if (!touched.contains(name) && written_early.contains(name)) add_new(result.carried, name);
    }
    touched.insert(unit.reads.begin(), unit.reads.end());
    touched.insert(unit.writes.begin(), unit.writes.end());
    written_late.insert(unit.writes.begin(), unit.writes.end());
    result.late.push_back(unit);
  }
  return result;
}

/// Units computed ahead that may run at every visit as well: without models, of values that are not computed ahead, and no value that
/// they touch is written twice.
Units cheap_units(const Split& found) {
  std::map<std::string, int> num_writers;
  std::set<std::string> ahead;
  for (const auto* units : {&found.early, &found.late}) {
    for (const auto& unit : *units) {
      for (const auto& name : unit.writes) ++num_writers[name];
      if (units == &found.early) ahead.insert(unit.writes.begin(), unit.writes.end());
    }
  }
  Units cheap;
  for (const auto& unit : found.early) {
    bool once = std::all_of(unit.writes.begin(), unit.writes.end(), [&](const auto& name) { return num_writers[name] == 1; });
    if (!unit.models.empty() || !once || any_in(unit.reads, ahead)) continue;
    cheap.push_back(unit);
    for (const auto& name : unit.writes) ahead.erase(name);
  }
  return cheap;
}

/// Runs cheap units on both sides instead of keeping what they write.
Split with_cheap_units(const Split& found, const Units& all) {
  std::set<std::string> wanted, on_both;
  for (const auto& unit : found.late) wanted.insert(unit.reads.begin(), unit.reads.end());
  auto cheap = cheap_units(found);
  for (auto unit = cheap.rbegin(); unit != cheap.rend(); ++unit) {
    if (!any_in(unit->writes, wanted)) continue;
    on_both.insert(unit->name);
    wanted.insert(unit->reads.begin(), unit->reads.end());
  }
  Split result{found.early, {}, {}};
  for (const auto& unit : all) {
    if (on_both.contains(unit.name) || has_unit(found.late, unit.name)) result.late.push_back(unit);
  }
  for (const auto& name : found.carried) {
    auto writes = [&](const Unit& unit) { return on_both.contains(unit.name) && contains(unit.writes, name); };
    if (std::none_of(result.late.begin(), result.late.end(), writes)) result.carried.push_back(name);
  }
  return result;
}

/// Cuts units that run at every visit a second time, now that the draws of every visit are known before the run. Of those that depend on no
/// trained parameter only such are computed ahead that run a model which no unit left behind runs or the weights that training changes,
/// and what these read.
Split split_ahead(const Units& units, const std::map<std::string, Labels>& labels, const Policy& policy) {
  auto stay = policy.at_every_visit;
  for (;;) {
    auto result = split(units, [&](const Unit& unit) { return labels.at(unit.name).planned() && !stay.contains(unit.name); });
    auto models = models_of(result.late);
    std::set<std::string> remaining(models.begin(), models.end()), wanted;
    auto before = stay.size();
    for (auto unit = result.early.rbegin(); unit != result.early.rend(); ++unit) {
      bool frees = std::any_of(unit->models.begin(), unit->models.end(), [&](const auto& model) { return !is_trained(model, remaining); });
      bool only_now = unit->weights == Weights::initial;
      if (frees || only_now || any_in(unit->writes, wanted)) wanted.insert(unit->reads.begin(), unit->reads.end());
      else stay.insert(unit->name);
    }
    if (stay.size() == before) return with_cheap_units(result, units);
  }
}

/// `drawn`: the names of values that come with a visit and not with a sample.
Stage make_stage(const Units& units, const std::vector<std::string>& kept, const Schedule& of, const std::set<std::string>& drawn) {
  Stage stage;
  stage.units = units;
  stage.kept = kept;
  auto parts = split(units, [&](const Unit& unit) { return !unit.draws && !any_in(unit.reads, drawn); });
  stage.each = parts.early;
  stage.batch = parts.late;
  std::set<std::string> written, written_in_batch;
  auto take = [&](const Unit& unit, bool batched) {
    for (const auto& name : unit.reads) {
      if (written_in_batch.contains(name)) continue;
      if (drawn.contains(name)) {
        add_new(stage.drawn, name);
        continue;
      }
      if (batched) add_new(stage.joined, name);
      if (!written.contains(name)) add_new(stage.of_sample, name);
    }
    (batched ? written_in_batch : written).insert(unit.writes.begin(), unit.writes.end());
    if (of.labels.units.at(unit.name).trained && !of.without_gradient.contains(unit.name)) stage.with_gradient.insert(unit.name);
  };
  for (const auto& unit : stage.each) take(unit, false);
  for (const auto& unit : stage.batch) take(unit, true);
  for (const auto& name : kept) {
    if (!written_in_batch.contains(name)) add_new(stage.joined, name);
  }
  return stage;
}

void run_units(const Stage& stage, const Units& units, Values& values) {
  for (const auto& unit : units) {
    at::AutoGradMode record(at::GradMode::is_enabled() && stage.with_gradient.contains(unit.name));
    run({unit}, values);
  }
}

}  // namespace

std::vector<std::string> Schedule::sample_inputs() const {
  std::vector<std::string> names;
  for (const auto* stage : {&ahead, &live}) {
    for (const auto& name : stage->of_sample) {
      if (!contains(once.kept, name)) add_new(names, name);
    }
  }
  return names;
}

Units Schedule::after_once() const {
  Units later;
  for (const auto& unit : units) {
    if (!has_unit(once.units, unit.name)) later.push_back(unit);
  }
  return later;
}

/// Adds what twins write of these values.
static std::set<std::string> with_twins(std::set<std::string> padded, const Units& units) {
  for (const auto& unit : units) {
    for (const auto& name : unit.writes) {
      if (!unit.prefix.empty() && padded.contains(name.substr(unit.prefix.size()))) padded.insert(name);
    }
  }
  return padded;
}

Schedule schedule(const Units& units, const std::map<std::string, Labels>& inputs, const std::set<std::string>& trained_models,
                  const Policy& policy, const std::set<std::string>& padded, const std::set<std::string>& without_gradient) {
  for (const auto& unit : units) {
    auto given = std::ranges::find_if(unit.writes, [&](const auto& name) { return inputs.contains(name); });
    if (given != unit.writes.end())
      throw std::logic_error(fmt::format("unit '{}' writes '{}', which samples or visits bring; give it another name", unit.name, *given));
  }
  Schedule result{units, inputs, trained_models, policy, padded, without_gradient, label(units, inputs, trained_models), {}, {}, {}};
  const auto& labels = result.labels.units;
  auto cut = split(units, [&](const Unit& unit) { return labels.at(unit.name).fixed() && !policy.at_every_visit.contains(unit.name); });
  auto ahead = policy.ahead ? split_ahead(cut.late, labels, policy) : Split{{}, cut.late, {}};
  std::set<std::string> drawn;
  for (const auto& [name, of_input] : inputs) {
    if (of_input.drawn() && !of_input.sample) drawn.insert(name);
  }
  result.once = make_stage(cut.early, cut.carried, result, drawn);
  result.ahead = make_stage(ahead.early, ahead.carried, result, drawn);
  drawn.insert(ahead.carried.begin(), ahead.carried.end());
  result.live = make_stage(ahead.late, {}, result, drawn);
  const auto all_padded = with_twins(padded, units);
  for (auto* stage : {&result.once, &result.ahead, &result.live}) {
    for (const auto& name : stage->joined) {
      if (all_padded.contains(name)) stage->padded.insert(name);
    }
  }
  return result;
}

Schedule with_policy(const Schedule& other, const Policy& policy) {
  return schedule(other.units, other.inputs, other.trained, policy, other.padded, other.without_gradient);
}

Values run(const Stage& stage, std::vector<Values> samples, const Values& draws) {
  for (auto& sample : samples) run_units(stage, stage.each, sample);
  auto values = draws;
  for (const auto& name : stage.joined) {
    std::vector<Value> of_samples;
    for (const auto& sample : samples) of_samples.push_back(sample.at(name));
    values[name] = join(name, of_samples, stage.padded.contains(name));
  }
  samples.clear();
  run_units(stage, stage.batch, values);
  return values;
}

}  // namespace burnish::pipeline
