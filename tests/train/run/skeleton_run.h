#pragma once
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <nlohmann/json.hpp>

#include "tests/skeleton_model.h"
#include "train/objectives/objective_kind.h"
#include "train/options/settings.h"
#include "train/run/loop.h"
#include "train/subject/choosing.h"

namespace burnish::test {

/// The samples of a skeleton run: random numbers that are kept as a cache keeps them.
struct SkeletonSamples {
  SkeletonSamples(int64_t num_trained, int64_t num_held_out, bool captions_vary)
      : listed(list(num_trained, captions_vary, 1)), held_out(list(num_held_out, false, 2)) {}

  data::Cache cache{""};
  train::Listed listed, held_out;

 private:
  train::Listed list(int64_t count, bool captions_vary, uint64_t seed) {
    train::Listed list;
    list.samples.inputs = std::make_shared<train::InputTable>(train::input_table());
    auto& section = cache.section("random", {{"seed", seed}});
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    auto random = [&](std::vector<int64_t> shape) { return at::empty(shape).normal_(0, 1, generator); };
    for (int64_t row = 0; row < count; ++row) {
      list.samples.list.push_back({.number = row, .extent = {3, 16, 16}, .row = {.prompt = "a, b", .captions = {{"a, b"}}}});
      list.samples.list.back().latent_shape = {4, 2, 4, 4};
      auto key = std::to_string(row);
      section.add(key, {{"latents", random({1, 4, 2, 4, 4})}, {"text_embedding", random({1, 6, 16})}});
      list.kept.by_row[row] = {{{"latents", {&section, key}}, {"text_embedding", {&section, key}}}};
    }
    list.samples.sets.front().captions.shuffle = captions_vary;
    return list;
  }
};

/// A run of the skeleton family up to its first step, each part made as train/run/run.cpp makes it, in this process.
struct SkeletonRun {
  struct Data {
    int64_t num_held_out = 0;
    bool captions_vary = false;  ///< then what is made of a caption is computed ahead of training
  };
  static constexpr int64_t kSamples = 4;

  /// A LoRA of four steps in fp32 that saves at its end alone, in FOLDER/run.
  static train::Settings settings_in(const std::filesystem::path& folder) {
    if (!std::filesystem::exists(folder / "model.safetensors")) save_skeleton(folder / "model.safetensors", /*num_experts=*/1);
    std::filesystem::create_directories(folder / "run");
    train::Settings s;
    s.model.names.model = {(folder / "model.safetensors").string()};
    s.model.options.dtype = at::kFloat;
    s.trained.adapted = {"dit"};
    s.trained.targets = "to_q,to_v";
    s.trained.adapter.rank = 2;
    s.trained.learning_rate = 0.01;
    s.objective.dtype = at::kFloat;
    s.course.max_steps = 4;
    s.step.learning_rate = 0.01;
    s.output.folder = folder / "run";
    s.output.files.dtype = at::kFloat;
    return s;
  }

  explicit SkeletonRun(train::Settings given, const dist::World& world = alone()) : SkeletonRun(std::move(given), Data(), world) {}
  SkeletonRun(train::Settings given, const train::KeptForBackward& kept) : SkeletonRun(std::move(given), Data(), alone(), kept) {}
  SkeletonRun(train::Settings given, const Data& data, const dist::World& world = alone(), const train::KeptForBackward& kept = {})
      : settings(std::move(given)),
        subject(open(settings)),
        objective(make_objective(settings.objective, subject)),
        schedule(pipeline::schedule(counted_units(), train::input_table().labels(data.captions_vary), subject.chosen.models(*subject), {})),
        samples(kSamples, data.num_held_out, data.captions_vary),
        course(settings.course, subject.model->process(), *objective, samples.listed.samples,
               data.num_held_out > 0 ? &samples.held_out.samples : nullptr),
        feed(course, {samples.listed.samples, samples.listed.kept},
             std::optional<train::Source>({samples.held_out.samples, samples.held_out.kept})),
        trainee(load(kept, world)),
        training{settings, subject, *objective, schedule, course, batches, nullptr, nullptr, trainee, world, untold()} {}
  SkeletonRun(const SkeletonRun&) = delete;

  /// Trains to the end.
  std::optional<train::NoMemory> loop(const std::vector<std::unique_ptr<train::Hook>>& hooks) { return train::loop(training, hooks); }
  /// Copies of what trains.
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> list;
    for (const auto& p : trainee.optimizer->parameters()) list.push_back(p.value.detach().clone());
    return list;
  }

  std::map<std::string, int> runs;  ///< how often each unit ran
  train::Settings settings;
  train::Subject subject;
  std::unique_ptr<train::Objective> objective;
  pipeline::Schedule schedule;
  SkeletonSamples samples;
  train::Course course;
  train::Feed feed;
  train::Batches batches{feed};
  train::Trainee trainee;
  train::Training training;

 private:
  static train::Subject open(const train::Settings& settings) {
    auto model = models::skeleton::kFamily.open(models::open_model_files(settings.model.names), settings.model.options);
    auto chosen = train::choose(settings.trained, *model);
    return {std::move(model), std::move(chosen), ""};
  }

  train::Trainee load(const train::KeptForBackward& kept, const dist::World& world) const {
    auto loaded = train::load_trainee(subject, schedule, settings.step, kept, settings.model.options.device, world);
    loaded.progress.fingerprint = "test";
    if (settings.output.resume) resume(loaded, settings.output.state());
    return loaded;
  }

  pipeline::Units counted_units() {
    auto units = objective->units();
    for (auto& unit : units) {
      unit.run = [this, name = unit.name, run = std::move(unit.run)](pipeline::Scope& scope) {
        ++runs[name];
        run(scope);
      };
    }
    return units;
  }

  static const records::StatusFile& untold() {
    static const records::StatusFile status;
    return status;
  }
  static const dist::World& alone() {
    static const dist::World world;
    return world;
  }
};

/// What a hook is told of a step that nobody took.
inline train::StepReport report_of(int64_t step, double loss = 0, int64_t num_samples = 1, double seconds = 1) {
  train::StepReport report;
  report.step = step;
  report.loss = loss;
  report.num_samples = num_samples;
  report.seconds = seconds;
  return report;
}

inline bool all_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return at::equal(x, y); });
}

}  // namespace burnish::test
