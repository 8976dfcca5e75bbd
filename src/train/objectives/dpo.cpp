// Direct preference optimization as an objective: of two pictures under one caption, noise and time, the preferred one becomes likelier
// than it was to the model before training, and the other less so.
#include "train/objectives/dpo.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/input_error.h"
#include "data/archived_files.h"
#include "train/objectives/objective.h"
#include "train/objectives/own_options.h"
#include "train/objectives/reference.h"
#include "train/objectives/sample_loss.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

const std::string kRejected = "rejected_", kError = "error";
const char* const kBeta = "beta_dpo";

/// The options of direct preference optimization.
struct DpoOptions {
  double beta = 5000;
};
DpoOptions dpo_options_of(const models::OptionValues& own) { return {.beta = own.get<double>(kBeta)}; }

/// Makes what computes both pictures' errors by the model and by the reference, then what these come to.
pipeline::Units dpo_units(const Subject& subject, double beta) {
  auto units = training_units(*subject, subject.chosen.experts);
  auto add = [&](const pipeline::Units& more) { units.insert(units.end(), more.begin(), more.end()); };
  add(loss_units(*subject, {}, kError));
  add(pipeline::twins(units, {.prefix = kRejected, .values = {"image"}}));
  add(reference_units(units, subject));
  add({dpo_unit(beta)});
  return units;
}

/// Tells whether two files hold the same bytes; one that is gone, of a cache say, is like none.
bool are_equal(const std::string& one, const std::string& other) {
  if (one == other) return true;
  std::error_code failed;
  const auto size = std::filesystem::file_size(one, failed);
  if (failed || std::filesystem::file_size(other, failed) != size || failed) return false;
  return data::read_file_bytes(one) == data::read_file_bytes(other);
}

class Dpo final : public Objective {
 public:
  Dpo(ObjectiveSettings settings, const Subject& subject) : units_(dpo_units(subject, dpo_options_of(settings.own).beta)) {
    settings.loss.weighting = "uniform";
    visits_ = make_sft(settings, subject);
  }

  pipeline::Units units() const override { return units_; }
  void check(const Sample& sample) const override {
    if (!sample.row.further.contains(kRejectedImage))
      data_error("train", "row {}: the column {} must name the picture that was liked less than the row's own", sample.number,
                 kRejectedImage);
  }
  std::vector<std::string> warnings(const Samples& samples) const override {
    const auto is_equal = [](const Sample& sample) { return are_equal(sample.row.file, sample.row.further.at(kRejectedImage)); };
    const auto num = std::ranges::count_if(samples.list, is_equal);
    if (num == 0) return {};
    return {fmt::format("{} in {} the very picture that is liked more, so nothing is learned of it",
                        count_of(num, "sample has", "samples have"), kRejectedImage)};
  }
  std::vector<std::string> logged() const override { return {"implicit_accuracy", "margin", kGradientWeight}; }

  // Visits are those of supervised fine-tuning, without weights by time.
  pipeline::Values draws(const DrawRequest& request) const override { return visits_->draws(request); }
  int64_t num_held_out_draws() const override { return visits_->num_held_out_draws(); }
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const override {
    return visits_->held_out_draws(request, number);
  }
  void complete(pipeline::Values& draws) const override { visits_->complete(draws); }
  std::vector<Counted> counted(const pipeline::Values& draws) const override { return visits_->counted(draws); }

 private:
  pipeline::Units units_;
  std::unique_ptr<Objective> visits_;
};

void check_dpo(const RunForObjective& run) {
  if (run.loss_type != "l2") config_error("train", "dpo compares squared errors; take loss_type {} out", run.loss_type);
  if (run.is_weighed)
    config_error("train", "dpo has no loss weights, beta_dpo takes their place; take loss_weighting and min_snr_gamma out");
}

std::string dpo_fingerprint(const models::OptionValues& own) { return fmt::format("{}", dpo_options_of(own).beta); }

std::unique_ptr<Objective> make_dpo(const ObjectiveSettings& settings, const Subject& subject) {
  return std::make_unique<Dpo>(settings, subject);
}

}  // namespace

pipeline::Unit dpo_unit(double beta) {
  const std::string reference = kReference + kError, reference_rejected = kReference + kRejected + kError;
  auto run = [=](pipeline::Scope& s) {
    auto difference_B = s.tensor(kError) - s.tensor(kRejected + kError);
    auto margin_B = -beta / 2 * (difference_B - (s.tensor(reference) - s.tensor(reference_rejected)));
    s.write("loss", -at::log_sigmoid(margin_B));
    s.write("margin", margin_B.detach());
    s.write(kGradientWeight, at::sigmoid(-margin_B.detach()));
    s.write("implicit_accuracy", (margin_B > 0).to(at::kFloat));
  };
  return {"dpo",
          {kError, kRejected + kError, reference, reference_rejected},
          {"loss", "margin", "implicit_accuracy", kGradientWeight},
          {},
          std::move(run)};
}

const ObjectiveKind& dpo() {
  static const ObjectiveKind kind{
      .word = "dpo",
      .columns = {kRejectedImage},
      .pictures = {kRejectedImage},
      .draws_times = true,
      .options = {positive_option(kBeta, "how closely the model is held to what it was before training", DpoOptions().beta)},
      .check = check_dpo,
      .fingerprint = dpo_fingerprint,
      .make = make_dpo};
  return kind;
}

}  // namespace burnish::train
