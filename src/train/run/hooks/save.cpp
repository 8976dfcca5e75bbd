#include <omp.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>

#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "io/hash.h"
#include "loras/file_metadata.h"
#include "records/json_log.h"
#include "train/run/hooks/hooks.h"
#include "train/run/run_metadata.h"
#include "train/run/ways_to_load.h"
#include "train/step/snapshot.h"

namespace burnish::train {

namespace fs = std::filesystem;

namespace {

uint64_t checksum(const at::Tensor& contiguous) {
  return io::xxh64({static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()});
}

/// Has the values of adapters in memory all at once, which sums over them need before the first is written.
void gather(TrainedFile& file) {
  for (auto& value : file.values) value.get = [tensor = value.get().cpu().contiguous()] { return tensor; };
}

void add_sums(io::Metadata& metadata, const TrainedFile& file) {
  io::NamedTensors tensors;
  for (const auto& value : file.values) tensors.emplace_back(value.spec.name, value.get());
  loras::add_sums(metadata, tensors);
}

/// Writes a file tensor by tensor and compares what reads back. Returns the names of an adapter's tensors that hold zeros alone.
std::vector<std::string> write_checked(const fs::path& path, TrainedFile file, io::Metadata metadata) {
  if (file.layout) {
    gather(file);
    add_sums(metadata, file);
  }
  std::vector<io::TensorSpec> specs;
  for (const auto& value : file.values) specs.push_back(value.spec);
  io::SafetensorsWriter writer(path, specs, metadata);
  std::vector<uint64_t> checksums;
  std::vector<std::string> zeros;
  for (const auto& [spec, get] : file.values) {
    const auto value = get().cpu().contiguous();
    if (file.layout && !value.any().item<bool>()) zeros.push_back(spec.name);
    checksums.push_back(checksum(value));
    writer.write(spec.name, value);
  }
  writer.commit();
  auto reread = io::SafetensorsFile::open(path);
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto& name = specs[i].name;
    if (!reread->tensors().contains(name) || checksum(reread->tensor(name)) != checksums[i])
      data_error("train", "{} does not read back as it was written ('{}')", path.string(), name);
    reread->release(name);
  }
  return zeros;
}

/// The part in that of a process that writes nothing.
void have_values(const TrainedFile& file) {
  for (const auto& value : file.values) value.get();
}

/// The step in the name of a file that was saved by step, or -1: behind the prefix "step-12.safetensors", "step-12.vae.safetensors".
int64_t step_of(const fs::path& path, const std::string& prefix) {
  auto name = path.filename().string();
  if (!name.starts_with(prefix)) return -1;
  name.erase(0, prefix.size());
  if (!name.starts_with("step-") || !name.ends_with(".safetensors")) return -1;
  return parse_number<int64_t>(name.substr(5, name.find('.') - 5)).value_or(-1);
}

/// Removes weights saved by step, but for those of the last `count` steps up to `step`.
void keep_last(const OutputSettings& output, int64_t count, int64_t step) {
  std::map<int64_t, std::vector<fs::path>> by_step;
  for (const auto& entry : fs::directory_iterator(output.folder)) {
    if (auto of_file = step_of(entry.path(), output.prefix()); of_file >= 0 && of_file <= step) by_step[of_file].push_back(entry.path());
  }
  while (std::ssize(by_step) > count) {
    for (const auto& path : by_step.begin()->second) fs::remove(path);
    by_step.erase(by_step.begin());
  }
}

class Save final : public Hook {
 public:
  explicit Save(const Training& training)
      : training_(training),
        settings_(training.settings.output),
        of_run_(run_metadata(training)),
        when_(settled(settings_.save, training.course.num_steps(), !training.subject.chosen.whole_components().empty())) {}
  ~Save() override {
    try {
      finish();
    } catch (...) {  // what ends the run was said already
      return;
    }
  }

  void before() override {
    if (!settings_.save.keep_best || !settings_.resume) return;
    auto log = records::LogFollower(settings_.folder / "log.jsonl").next().log;
    const auto& losses = log.columns["validation_loss"];
    for (size_t i = 0; i < losses.size(); ++i) {
      if (log.steps[i] > 0 && losses[i] < lowest_) lowest_ = losses[i];  // not for the NaN of steps without one
    }
  }

  /// The best one is known by a validation loss, whose hook looks at the weights as well.
  bool looks_at(const StepReport& r) override {
    bool due = r.asked.save || (when_.minutes > 0 ? as_first(is_due(r.step)) : is_due(r.step));
    if (due) due_step_ = r.step;
    return due;
  }

  void stepped(StepReport& r) override {
    if (writing_.done.valid() && writing_.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      finish();  // a full disk ends the run now
    bool is_best = settings_.save.keep_best && r.validation_loss && as_first(*r.validation_loss < lowest_);
    if (is_best) lowest_ = *r.validation_loss;
    bool due = r.step == due_step_;
    if (due || is_best) save(due, is_best);
  }
  void interrupted() override { ended(); }
  void ended() override {
    training_.status.enter(records::State::saving);
    for (const auto& name : save(true, false, /*beside=*/false)) info("saved {}", (settings_.folder / name).string());
    for (const auto& way : ways_) info("{}", way);
  }

 private:
  /// What the first process finds where all save, since clocks and files may say otherwise to each.
  bool as_first(bool found) const {
    if (!training_.trainee.ownership) return found;
    return dist::sum_of(training_.world.group(), {training_.world.is_first() && found ? 1. : 0.}).front() > 0;
  }

  bool is_due(int64_t step) {
    if (when_.minutes > 0 && std::chrono::steady_clock::now() - last_ > std::chrono::duration<double>(60 * when_.minutes)) return true;
    if (when_.steps > 0 && step % when_.steps == 0) return true;
    return when_.epochs > 0 && training_.course.ends_epoch(step, when_.epochs);
  }

  /// The names of what is there once it is written. `beside`: while training goes on, where a copy is small.
  std::vector<std::string> save(bool by_step, bool is_best, bool beside = true) {
    finish();
    auto snapshot = take_snapshot(training_.trainee, {settings_.files.dtype, training_.settings.step.optimizer.rounding, by_step, is_best});
    std::vector<std::string> names;
    for (auto& file : snapshot.files) {
      file.name = settings_.prefix() + file.name;
      names.push_back(file.name);
    }
    ways_ = ways_to_load(snapshot.files, settings_.folder);
    bool all_there = std::all_of(names.begin(), names.end(), [&](const auto& name) { return fs::exists(settings_.folder / name); });
    if (!is_best && as_first(training_.trainee.saved_step == snapshot.step && all_there)) return names;
    if (by_step) last_ = std::chrono::steady_clock::now();
    say_readers(snapshot);
    if (!beside || !as_first(is_written_beside(snapshot))) {
      write_weights(snapshot);
      take_state(snapshot, training_.trainee);
      write_state(snapshot);
      if (by_step) training_.trainee.saved_step = snapshot.step;
      training_.status.saved(snapshot.step, paths_of(snapshot));
      return names;
    }
    copy_files(snapshot);
    take_state(snapshot, training_.trainee);
    make_own(snapshot.state.tensors);
    writing_.saved_step = by_step ? snapshot.step : training_.trainee.saved_step;
    writing_.step = snapshot.step;
    writing_.files = paths_of(snapshot);
    write_beside(std::make_shared<const Snapshot>(std::move(snapshot)));
    return names;
  }

  /// Where no further thread can be started, training waits for it.
  void write_beside(const std::shared_ptr<const Snapshot>& snapshot) {
    auto write = [this, snapshot] {
      write_weights(*snapshot);
      write_state(*snapshot);
    };
    try {
      writing_.done = std::async(std::launch::async, [write] {
        omp_set_num_threads(1);  // the other cores are training
        write();
      });
    } catch (const std::system_error&) {
      writing_.done = std::async(std::launch::deferred, write);
      finish();
    }
  }

  /// The name that a file has among the best weights: "best.vae.safetensors" for "step-12.vae.safetensors".
  std::string best_name(const std::string& name) const {
    const auto prefix = settings_.prefix();
    return prefix + "best" + name.substr(name.find('.', prefix.size()));
  }

  /// The files of weights that are written of it.
  std::vector<fs::path> paths_of(const Snapshot& snapshot) const {
    std::vector<fs::path> paths;
    for (const auto& file : snapshot.files) {
      if (snapshot.by_step) paths.push_back(settings_.folder / file.name);
      if (snapshot.is_best) paths.push_back(settings_.folder / best_name(file.name));
    }
    return paths;
  }

  /// Once a run: whoever takes a file to another program reads it here.
  void say_readers(const Snapshot& snapshot) {
    for (const auto& file : snapshot.files) {
      if (!said_readers_ && !file.readers.empty()) info("{}: {}", file.name, file.readers);
    }
    said_readers_ = true;
  }

  /// Once a run: an adapter begins with zeros, and where they stay its layer is as it was.
  void say_zeros(const std::string& name, const std::vector<std::string>& zeros, size_t num_tensors) {
    if (zeros.empty() || said_zeros_) return;
    said_zeros_ = true;
    warn(
        "{}: {} of {} tensors still hold zeros ({} first), and their layers are as before training: no gradient reached them, or their "
        "learning rate is 0",
        name, zeros.size(), num_tensors, zeros.front());
  }

  void write_weights(const Snapshot& snapshot) {
    auto write = [&](const std::string& name, const TrainedFile& file, const io::Metadata& metadata) {
      if (snapshot.writes_files) say_zeros(name, write_checked(settings_.folder / name, file, metadata), file.values.size());
      else have_values(file);
    };
    auto metadata = step_metadata(training_.course, snapshot.step);
    metadata.insert(of_run_.begin(), of_run_.end());
    for (const auto& file : snapshot.files) {
      auto own = file.metadata;
      own.insert(metadata.begin(), metadata.end());
      if (snapshot.by_step) write(file.name, file, own);
      if (snapshot.is_best) write(best_name(file.name), file, own);
    }
  }

  /// After the weights: the state that a run goes on from, then what is kept of older weights.
  void write_state(const Snapshot& snapshot) const {
    if (!snapshot.by_step) return;
    save_state(snapshot);
    if (when_.keep_last > 0 && training_.world.is_first()) keep_last(settings_, when_.keep_last, snapshot.step);
  }

  /// Where each process has a part of it, all write theirs, and the first has the state count when all are there.
  void save_state(const Snapshot& snapshot) const {
    const auto& ownership = training_.trainee.ownership;
    if (!ownership) return checkpoint::save_state(settings_.state(), snapshot.state);
    const auto& world = training_.world;
    const auto& row = ownership->row();
    if (ownership->writes_part()) checkpoint::save_part(settings_.state(), snapshot.state, row.rank(), row.size());
    auto here = fmt::format("state of step {}", snapshot.step);
    if (!world.is_first()) return world.arrive(here);
    world.meet(here);
    checkpoint::publish(settings_.state(), snapshot.step, row.size());
  }

  /// Waits for what is being written; its error is thrown here.
  void finish() {
    if (!writing_.done.valid()) return;
    writing_.done.get();
    training_.trainee.saved_step = writing_.saved_step;
    training_.status.saved(writing_.step, std::move(writing_.files));
  }

  const Training& training_;
  const OutputSettings& settings_;
  const io::Metadata of_run_;
  SaveSettings when_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double lowest_ = std::numeric_limits<double>::infinity();
  int64_t due_step_ = -1;  ///< after which it saves next, or did last
  /// A save that is being written while training goes on.
  struct Writing {
    std::future<void> done;
    int64_t step = 0, saved_step = -1;  ///< the step that it is of, and the one that a run then goes on from
    std::vector<fs::path> files;
  } writing_;
  bool said_readers_ = false;
  bool said_zeros_ = false;
  std::vector<std::string> ways_;  ///< ways to load what was saved last
};

}  // namespace

std::unique_ptr<Hook> make_save(const Training& training) {
  bool has_part = training.world.is_first() || training.trainee.ownership;
  return has_part ? std::make_unique<Save>(training) : nullptr;
}

}  // namespace burnish::train
