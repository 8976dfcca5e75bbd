#include <ATen/ops/equal.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

class Save final : public Hook {
 public:
  explicit Save(const Training& training) : training_(training), settings_(training.settings.output) {}

  void stepped(const StepReport& r) override {
    if (settings_.save_steps > 0 && r.step % settings_.save_steps == 0) save();
  }
  void interrupted() override { ended(); }
  void ended() override {
    for (const auto& name : save()) info("saved {}", (settings_.folder / name).string());
  }

 private:
  /// The names of what is there afterwards.
  std::vector<std::string> save() {
    auto& trainee = training_.trainee;
    const auto& folder = settings_.folder;
    std::optional<optim::Averaged> averaged(std::in_place, trainee.ema.get());
    auto files = training_.subject.trained.files(trainee.progress.step, settings_.dtype, *trainee.optimizer);
    bool all_there = std::all_of(files.begin(), files.end(), [&](const auto& file) { return fs::exists(folder / file.name); });
    if (trainee.saved_step != trainee.progress.step || !all_there) {
      for (auto& file : files) write(file);
      averaged.reset();  // the state has both
      checkpoint::save_state(settings_.state(), {*trainee.optimizer, trainee.ema.get()}, trainee.progress);
      trainee.saved_step = trainee.progress.step;
    }
    std::vector<std::string> names;
    for (const auto& file : files) names.push_back(file.name);
    return names;
  }

  /// Writes a file and compares what reads back.
  void write(const Trained::File& file) const {
    auto path = settings_.folder / file.name;
    io::Metadata metadata{{"format", "pt"},
                          {"base_model", training_.subject.model->names().variant},
                          {"step", std::to_string(training_.trainee.progress.step)},
                          {"trainer", "burnish"}};
    metadata.insert(file.metadata.begin(), file.metadata.end());
    io::save_safetensors(path, file.tensors, metadata);
    auto reread = io::SafetensorsFile::open(path);
    for (const auto& [name, value] : file.tensors) {
      if (!reread->tensors().contains(name) || !at::equal(reread->tensor(name), value.cpu()))
        data_error("train", "{} does not read back as it was written ('{}')", path.string(), name);
      reread->release(name);
    }
  }

  const Training& training_;
  const OutputSettings& settings_;
};

}  // namespace

std::unique_ptr<Hook> make_save(const Training& training) { return std::make_unique<Save>(training); }

}  // namespace burnish::train
