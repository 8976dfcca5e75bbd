#include "base/log.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/files.h"
#include "memory/gpu.h"
#include "records/csv_log.h"
#include "records/event_file.h"
#include "records/json_log.h"
#include "records/visits.h"
#include "train/options/fields.h"
#include "train/options/meaning.h"
#include "train/run/hooks/hooks.h"

namespace burnish::train {

namespace {

/// Highest resident memory of this process so far.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// Seconds since 1970.
double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

nlohmann::json line_of(const StepReport& r, const Training& training) {
  nlohmann::json line{{"step", r.step},
                      {"loss", r.loss},
                      {"grad_norm", r.grad_norm},
                      {"lr", r.learning_rate},
                      {"samples_per_second", static_cast<double>(r.num_samples) / r.seconds},
                      {"step_seconds", r.seconds},
                      {"data_seconds", r.data_seconds},
                      {"time", now()},
                      {"peak_memory_bytes", peak_memory()}};
  if (r.raw_loss) line["raw_loss"] = *r.raw_loss;
  if (auto bytes = memory::most_gpu_bytes(); bytes > 0) line["peak_device_memory_bytes"] = bytes;
  for (const auto& [name, mean] : r.logged) line[name] = mean;
  for (const auto& bin : r.by_time) {
    auto mean = [&](double sum) { return bin.count > 0 ? nlohmann::json(sum / static_cast<double>(bin.count)) : nlohmann::json(); };
    line["loss_by_time"].push_back({{"raw", mean(bin.raw)}, {"weighted", mean(bin.weighted)}, {"count", bin.count}});
  }
  // A table's columns are those of its first row, so what is not there at every step is null at the others.
  if (training.course.num_held_out() > 0)
    line["validation_loss"] = r.validation_loss ? nlohmann::json(*r.validation_loss) : nlohmann::json();
  for (const auto& strength : training.settings.output.validation_strengths) {
    auto loss = r.losses_at.find(strength.text());
    line["validation_loss_at_" + strength.text()] = loss == r.losses_at.end() ? nlohmann::json() : nlohmann::json(loss->second);
  }
  if (r.learned_rate) line["learned_rate"] = *r.learned_rate;
  return line;
}

/// The samples of a run, as its log of visits names them.
std::vector<records::VisitedSample> named(const Samples& samples) {
  std::vector<records::VisitedSample> all;
  for (const auto& sample : samples.list) all.push_back({sample.number, sample.row.file, sample.row.prompt});
  return all;
}

/// `few` under the names that `all` has, NaN where it lacks one.
records::Record with_columns_of(const records::Record& all, const records::Record& few) {
  records::Record record{.step = few.step, .time = few.time, .values = {}};
  for (const auto& [name, value] : all.values) {
    auto has = std::ranges::find(few.values, name, &std::pair<std::string, double>::first);
    record.values.emplace_back(name, has == few.values.end() ? std::numeric_limits<double>::quiet_NaN() : has->second);
  }
  return record;
}

/// The plan beside the run's other records, for its report. A run that cannot keep it is none the worse.
void save_plan(const MemoryPlan* plan, const std::filesystem::path& path) {
  try {
    if (plan) io::write_text_atomic(path, to_json(*plan).dump() + "\n");
    else std::filesystem::remove(path);
  } catch (const Error& error) {
    warn("{}", error.what());
  }
}

class Log final : public Hook {
 public:
  explicit Log(const Training& training) : training_(training) {}

  void before() override {
    const auto& output = training_.settings.output;
    auto last = output.resume ? training_.trainee.progress.step : -1;  // a new run has nothing, nor what was there at step 0
    if (last < training_.course.num_steps()) write_config();
    training_.status.count_steps(training_.course.num_steps());
    lines_.emplace(output.folder / "log.jsonl", last);
    visits_.emplace(output.folder, last, named(training_.batches.feed.samples()));
    if (output.logs.csv) table_.emplace(output.folder / "log.csv", last);
    if (output.logs.tensorboard) events_.emplace(output.folder / "tensorboard", last, now());
    save_plan(training_.plan, output.folder / "plan.json");
  }

  void write_config() const {
    auto again = training_.settings.given;                   // what was asked for: epochs are counted anew, of the data that is there then
    again.trained.checkpoint_rank = checkpoint_rank(again);  // a lora_rank that says its default is told from none by this alone
    again.output.resume = again.auto_resume = again.output.overwrite = false;  // the file starts a run, in a folder of its own
    config::Fields resolved;
    fields(resolved, again);
    for (const auto& field : resolved.list()) config::relocate(field, std::filesystem::current_path());  // files stay where they are
    io::write_text_atomic(training_.settings.output.folder / "config.toml", config::to_toml(resolved));
  }

  /// Logs the validation loss of before the first step, and nothing else of it.
  void begun(StepReport& r) override {
    if (!r.validation_loss) return;
    nlohmann::json line{{"step", r.step}, {"time", now()}, {"validation_loss", *r.validation_loss}};
    lines_->write(line);
    start_ = records::to_record(line);
    if (events_) events_->write(*start_);
  }

  void stepped(StepReport& r) override {
    auto line = line_of(r, training_);
    lines_->write(line);
    write_visits(r);
    if (!table_ && !events_) return;
    auto record = *records::to_record(line);
    if (table_ && start_) table_->write(with_columns_of(record, *start_));
    start_.reset();
    if (table_) table_->write(record);
    if (events_) events_->write(record);
  }

 private:
  /// Logs the visits of rows; the empty caption alone is no row's.
  void write_visits(const StepReport& r) {
    std::vector<records::Visit> visits;
    for (const auto& visit : r.visits) {
      if (visit.row != kNoRow) visits.push_back({r.step, visit.row, visit.time, visit.loss});
    }
    if (!visits.empty()) visits_->write(r.step, visits);
  }

  const Training& training_;
  std::optional<records::JsonLog> lines_;
  std::optional<records::VisitLog> visits_;
  std::optional<records::CsvLog> table_;
  std::optional<records::EventFile> events_;
  std::optional<records::Record> start_;  ///< the record of step 0, which a table takes when it knows its columns
};

}  // namespace

std::unique_ptr<Hook> make_log(const Training& training) { return std::make_unique<Log>(training); }

}  // namespace burnish::train
