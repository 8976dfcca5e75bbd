#include <ATen/ops/equal.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>

#include "base/error.h"
#include "base/log.h"
#include "records/json_log.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

/// Everything a save writes, in tensors of its own, so that training can go on while it is written.
struct Snapshot {
  int64_t step = 0;
  std::vector<Trained::File> files;
  checkpoint::State state;
  bool by_step = true, is_best = false;  ///< what it is saved as
};

/// Copies beside training take memory: larger ones are written while training waits.
constexpr int64_t kBytesBeside = int64_t{2} << 30;

int64_t num_bytes(const Snapshot& snapshot) {
  int64_t bytes = 0;
  for (const auto& file : snapshot.files) {
    for (const auto& [name, value] : file.tensors) bytes += static_cast<int64_t>(value.nbytes());
  }
  for (const auto& [name, value] : snapshot.state.tensors) bytes += static_cast<int64_t>(value.nbytes());
  return bytes;
}

void make_own(io::NamedTensors& tensors) {
  for (auto& [name, value] : tensors) value = value.detach().to(value.options().device(at::kCPU), false, /*copy=*/true);
}

/// Writes a file and compares what reads back.
void write_checked(const fs::path& path, const Trained::File& file, const io::Metadata& metadata) {
  io::save_safetensors(path, file.tensors, metadata);
  auto reread = io::SafetensorsFile::open(path);
  for (const auto& [name, value] : file.tensors) {
    if (!reread->tensors().contains(name) || !at::equal(reread->tensor(name), value.cpu()))
      data_error("train", "{} does not read back as it was written ('{}')", path.string(), name);
    reread->release(name);
  }
}

/// The step in the name of a file that was saved by step, or -1: "step-12.safetensors", "step-12.vae.safetensors".
int64_t step_of(const fs::path& path) {
  auto name = path.filename().string();
  if (!name.starts_with("step-") || !name.ends_with(".safetensors")) return -1;
  int64_t step = -1;
  auto end = name.data() + name.find('.');
  auto result = std::from_chars(name.data() + 5, end, step);
  return result.ec == std::errc() && result.ptr == end ? step : -1;
}

/// Removes weights saved by step, but for those of the last `count` steps up to `step`.
void keep_last(const fs::path& folder, int64_t count, int64_t step) {
  std::map<int64_t, std::vector<fs::path>> by_step;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (auto of_file = step_of(entry.path()); of_file >= 0 && of_file <= step) by_step[of_file].push_back(entry.path());
  }
  while (std::ssize(by_step) > count) {
    for (const auto& path : by_step.begin()->second) fs::remove(path);
    by_step.erase(by_step.begin());
  }
}

/// What is left open, settled: saves where none are asked for, so that a long run never loses more than a tenth of itself. Of whole models
/// the last of them stays, since each takes as much as the model.
SaveSettings settled(SaveSettings save, int64_t num_steps, bool trains_whole) {
  if (save.steps >= 0) return save;
  constexpr int64_t kTimes = 10, kLeastApart = 250;
  save.steps = save.epochs > 0 || save.minutes > 0 ? 0 : std::max(kLeastApart, num_steps / kTimes);
  if (save.steps > 0 && save.keep_last == 0 && trains_whole) save.keep_last = 1;
  return save;
}

class Save final : public Hook {
 public:
  explicit Save(const Training& training)
      : training_(training),
        settings_(training.settings.output),
        when_(settled(settings_.save, training.course.num_steps(), !training.subject.trained.whole_components().empty())) {}
  ~Save() override {
    if (writing_.valid()) writing_.wait();
  }

  void before() override {
    if (!settings_.save.keep_best || !settings_.resume) return;
    auto log = records::LogFollower(settings_.folder / "log.jsonl").next().log;
    for (auto loss : log.columns["validation_loss"]) {
      if (loss < lowest_) lowest_ = loss;  // not for the NaN of steps without one
    }
  }

  void stepped(StepReport& r) override {
    bool is_best = settings_.save.keep_best && r.validation_loss && *r.validation_loss < lowest_;
    if (is_best) lowest_ = *r.validation_loss;
    bool due = is_due(r.step);
    if (due || is_best) save(due, is_best);
  }
  void interrupted() override { ended(); }
  void ended() override {
    auto names = save(true, false, /*beside=*/false);
    for (const auto& name : names) info("saved {}", (settings_.folder / name).string());
  }

 private:
  bool is_due(int64_t step) {
    if (when_.minutes > 0 && std::chrono::steady_clock::now() - last_ > std::chrono::duration<double>(60 * when_.minutes)) return true;
    if (when_.steps > 0 && step % when_.steps == 0) return true;
    if (when_.epochs == 0) return false;
    auto epochs = [&](int64_t s) {
      return s * training_.course.batches_per_step() / (when_.epochs * training_.course.batches_per_epoch());
    };
    return epochs(step) > epochs(step - 1);
  }

  /// The names of what is there once it is written. `beside`: while training goes on, where a copy is small.
  std::vector<std::string> save(bool by_step, bool is_best, bool beside = true) {
    finish();
    auto snapshot = take(by_step, is_best);
    std::vector<std::string> names;
    for (const auto& file : snapshot.files) names.push_back(file.name);
    bool all_there = std::all_of(names.begin(), names.end(), [&](const auto& name) { return fs::exists(settings_.folder / name); });
    if (training_.trainee.saved_step == snapshot.step && all_there && !is_best) return names;
    if (by_step) last_ = std::chrono::steady_clock::now();
    if (!beside || num_bytes(snapshot) > kBytesBeside) {
      write(snapshot);
      if (by_step) training_.trainee.saved_step = snapshot.step;
      return names;
    }
    for (auto& file : snapshot.files) make_own(file.tensors);
    make_own(snapshot.state.tensors);
    writing_step_ = by_step ? snapshot.step : training_.trainee.saved_step;
    writing_ = std::async(std::launch::async, [this, snapshot = std::move(snapshot)] {
      omp_set_num_threads(1);  // the other cores are training
      write(snapshot);
    });
    return names;
  }

  Snapshot take(bool by_step, bool is_best) const {
    auto& trainee = training_.trainee;
    std::optional<optim::Averaged> averaged(std::in_place, *trainee.optimizer, trainee.ema.get());
    Snapshot snapshot{.step = trainee.progress.step, .files = {}, .state = {}, .by_step = by_step, .is_best = is_best};
    snapshot.files = training_.subject.trained.files(trainee.progress.step, settings_.dtype, *trainee.optimizer);
    if (trainee.ema || averages()) {
      for (auto& file : snapshot.files) make_own(file.tensors);  // the averages leave their place again
    }
    averaged.reset();  // the state has both
    if (by_step) snapshot.state = checkpoint::state_of({*trainee.optimizer, trainee.ema.get()}, trainee.progress);
    return snapshot;
  }

  bool averages() const { return !training_.trainee.optimizer->parameters().empty() && training_.trainee.optimizer->average(0).defined(); }

  /// Weights first, then the state that a run goes on from, then what is kept of older weights.
  void write(const Snapshot& snapshot) const {
    io::Metadata metadata{{"format", "pt"},
                          {"base_model", training_.subject.model->names().variant},
                          {"step", std::to_string(snapshot.step)},
                          {"trainer", "burnish"}};
    for (const auto& file : snapshot.files) {
      auto own = metadata;
      own.insert(file.metadata.begin(), file.metadata.end());
      if (snapshot.by_step) write_checked(settings_.folder / file.name, file, own);
      auto best = "best" + file.name.substr(file.name.find('.'));
      if (snapshot.is_best) write_checked(settings_.folder / best, file, own);
    }
    if (!snapshot.by_step) return;
    checkpoint::save_state(settings_.state(), snapshot.state);
    if (when_.keep_last > 0) keep_last(settings_.folder, when_.keep_last, snapshot.step);
  }

  /// Waits for what is being written; its error is thrown here.
  void finish() {
    if (!writing_.valid()) return;
    writing_.get();
    training_.trainee.saved_step = writing_step_;
  }

  const Training& training_;
  const OutputSettings& settings_;
  SaveSettings when_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double lowest_ = std::numeric_limits<double>::infinity();
  std::future<void> writing_;
  int64_t writing_step_ = -1;
};

}  // namespace

std::unique_ptr<Hook> make_save(const Training& training) { return std::make_unique<Save>(training); }

}  // namespace burnish::train
