#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/say.h"
#include "io/files.h"
#include "train/run/at_strength.h"
#include "train/run/hooks/hooks.h"

namespace burnish::train {

namespace {

/// Held-out losses that have to lie above the lowest one in a row before a run is told.
constexpr int kRising = 3;

class Validate final : public Hook {
 public:
  explicit Validate(const Training& training) : training_(training) {}

  /// Takes the loss before training: a run that goes on has that of its beginning.
  void before() override {
    auto at_start = training_.settings.output.resume ? read_before() : std::nullopt;
    before_ = lowest_ = at_start ? *at_start : loss();
    write({{"before", before_}});
  }
  void begun(StepReport& r) override { r.validation_loss = before_; }

  bool looks_at(const StepReport& r) override {
    auto every = training_.settings.output.validation_steps;
    return r.step == training_.course.num_steps() || (every > 0 && r.step % every == 0);
  }

  void stepped(StepReport& r) override {
    if (!looks_at(r)) return;
    r.validation_loss = last_ = loss();
    r.losses_at = losses_at_ = losses_at_strengths();
    last_step_ = r.step;
    note_rise(r);
  }

  void ended() override {
    const bool is_measured = last_step_ == training_.trainee.progress.step;
    double after = is_measured ? last_ : loss();
    if (!is_measured) losses_at_ = losses_at_strengths();
    nlohmann::json losses{{"before", before_}, {"after", after}};
    std::string at;
    for (const auto& [strength, loss] : losses_at_) {
      losses["at"][strength] = loss;
      at += fmt::format(", at strength {} {:.5f}", strength, loss);
    }
    write(losses);
    if (training_.world.is_first()) tell(stdout, "validation loss: before {:.5f}, after {:.5f}{}\n", before_, after, at);
  }

 private:
  std::filesystem::path path() const { return training_.settings.output.folder / "validation.json"; }
  void write(const nlohmann::json& losses) const {
    if (training_.world.is_first()) io::write_text_atomic(path(), losses.dump(2) + "\n");
  }
  std::optional<double> read_before() const {
    if (!io::is_there(path())) return std::nullopt;
    auto losses = nlohmann::json::parse(io::read_text(path()), nullptr, /*allow_exceptions=*/false);
    if (!losses.is_object() || !losses.contains("before") || !losses["before"].is_number()) return std::nullopt;
    return losses["before"].get<double>();
  }

  void note_rise(const StepReport& r) {
    if (*r.validation_loss <= lowest_) {
      lowest_ = *r.validation_loss;
      lowest_step_ = r.step;
      num_above_ = 0;
      return;
    }
    if (++num_above_ != kRising || !training_.world.is_first()) return;
    warn(
        "step {}: the validation loss is {:.5f} and has not fallen below the {:.5f} of step {} in {} looks: more steps may teach the "
        "samples by "
        "heart",
        r.step, *r.validation_loss, lowest_, lowest_step_, kRising);
  }

  std::map<std::string, double> losses_at_strengths() const {
    std::map<std::string, double> losses;
    for (const auto& strength : training_.settings.output.validation_strengths) {
      AtStrength at(*training_.trainee.attached, strength);
      losses[strength.text()] = loss();
    }
    return losses;
  }

  /// The mean over all held-out samples and their draws, not weighted; processes share them out.
  double loss() const {
    at::NoGradGuard no_grad;
    const auto& trainee = training_.trainee;
    optim::Averaged averaged(*trainee.optimizer, trainee.ema.get(), trainee.sharing());
    double sum = 0;
    auto count = training_.course.num_held_out();
    const auto& world = training_.world;
    // Where processes need each other for weights, one that has none left computes the last once more.
    auto rounds = training_.settings.step.division.divides_blocks() ? (count + world.size() - 1) / world.size() * world.size() : count;
    for (auto i = world.rank(); i < rounds; i += world.size()) {
      auto loss = losses_of(trainee, training_.batch({true, std::min(i, count - 1)})).mean().item<double>();
      if (i < count) sum += loss;
    }
    return dist::sum_of(world.group(), {sum}).front() / static_cast<double>(count);
  }

  const Training& training_;
  double before_ = 0, lowest_ = 0, last_ = 0;
  std::map<std::string, double> losses_at_;  ///< as last measured
  int64_t lowest_step_ = 0, last_step_ = -1;
  int num_above_ = 0;
};

}  // namespace

std::unique_ptr<Hook> make_validate(const Training& training) {
  if (training.course.num_held_out() == 0) return nullptr;
  training.trainee.attached->check_strengths(training.settings.output.validation_strengths);
  return std::make_unique<Validate>(training);
}

}  // namespace burnish::train
