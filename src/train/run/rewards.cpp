#include "train/run/rewards.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/evenly.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "data/first_frame.h"
#include "io/files.h"
#include "models/registry.h"

namespace burnish::train {

namespace {

constexpr size_t kMostAnswer = size_t{16} << 20;
constexpr int64_t kMostTrainingPictures = 500, kAtOnce = 8;

/// Looks at pictures some at a time.
at::Tensor seen_by(judging::Eye& eye, int64_t count, const std::function<at::Tensor(int64_t)>& picture) {
  std::vector<at::Tensor> seen;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    std::vector<at::Tensor> some;
    for (auto i = first; i < std::min(count, first + kAtOnce); ++i) some.push_back(picture(i));
    seen.push_back(judging::seen_by(eye, some));
  }
  return at::cat(seen);
}

at::Tensor seen_by(judging::Eye& eye, const std::vector<ScoredPicture>& pictures) {
  return seen_by(eye, std::ssize(pictures), [&](int64_t i) { return pictures[static_cast<size_t>(i)].pixels_HW3; });
}

std::vector<std::string> training_pictures(const Samples& samples) {
  std::vector<std::string> all;
  for (const auto& sample : samples.list) {
    if (!sample.row.file.empty() && !samples.set_of(sample).of_class_set) all.push_back(sample.row.file);
  }
  return evenly(all, kMostTrainingPictures);
}

/// The parts of a model that looks, in memory for as long as this lives.
class LoadedEye {
 public:
  explicit LoadedEye(judging::Eye& eye) : eye_(eye) {
    for (const auto& component : eye_.components().list()) eye_.components().load(component.name);
  }
  ~LoadedEye() {
    for (const auto& component : eye_.components().list()) eye_.components().unload(component.name);
  }
  LoadedEye(const LoadedEye&) = delete;
  LoadedEye& operator=(const LoadedEye&) = delete;

 private:
  judging::Eye& eye_;
};

std::string question(const std::vector<ScoredPicture>& pictures) {
  auto list = nlohmann::json::array();
  for (const auto& picture : pictures)
    list.push_back({{"picture", std::filesystem::absolute(picture.file).string()}, {"prompt", picture.prompt}});
  return list.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Rewards::Rewards(const RewardOptions& options, const Samples& samples, models::ModelOptions model_options)
    : options_(options), samples_(samples), model_options_(std::move(model_options)) {
  const bool asks_for_likeness = options.has(kLikenessReward);
  if (asks_for_likeness && training_pictures(samples).empty())
    config_error("train", "the reward {} compares with the training pictures, and this run has none; take it out, or name the data",
                 kLikenessReward);
  if (!asks_for_likeness && !options.has(kPromptReward)) return;
  files_ = models::open_model_files({.model = options.models, .model_paths = {}, .model_id_with_origin_paths = {}});
  eyes_.emplace("train", files_, model_options_);
  if (options.has(kPromptReward) && eyes_->of_prompts() == nullptr)
    config_error("train", "{} sees pictures alone, and the reward {} takes a CLIP too; name one in {}, or take {} out", eyes_->names(),
                 kPromptReward, kRewardModel, kPromptReward);
  for (auto* eye : eyes_->all()) {
    for (const auto& component : eye->components().list()) eye->components().check(component.name);
  }
}

at::Tensor Rewards::likeness(const std::vector<ScoredPicture>& pictures) {
  auto& eye = eyes_->of_likeness();
  const LoadedEye loaded(eye);
  if (!training_ND_.defined()) {
    const auto files = training_pictures(samples_);
    training_ND_ = seen_by(eye, std::ssize(files), [&](int64_t i) { return data::first_frame(files[static_cast<size_t>(i)]); });
  }
  const auto seen_ND = seen_by(eye, pictures);
  return at::matmul(seen_ND.to(at::kDouble), training_ND_.to(at::kDouble).t()).mean(1);
}

at::Tensor Rewards::answers(const std::vector<ScoredPicture>& pictures) {
  auto& eye = *eyes_->of_prompts();
  const LoadedEye loaded(eye);
  std::vector<std::string> prompts;
  for (const auto& picture : pictures) prompts.push_back(picture.prompt);
  return (seen_by(eye, pictures).to(at::kDouble) * eye.of_texts(prompts).to(at::kDouble)).sum(1);
}

at::Tensor Rewards::scores(const std::vector<ScoredPicture>& pictures) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> terms;
  for (const auto& term : options_.terms) {
    if (term.name == kProgramReward) terms.push_back(program_scores(options_.program, options_.timeout, pictures));
    else terms.push_back(term.name == kPromptReward ? answers(pictures) : likeness(pictures));
  }
  return at::stack(terms, 1);
}

at::Tensor program_scores(const std::string& command, double timeout, const std::vector<ScoredPicture>& pictures) {
  const auto asked = pictures.front().file.parent_path() / "asked.json";
  io::write_text_atomic(asked, question(pictures));
  const auto said = run_process({.words = {"/bin/sh", "-c", command}, .input = asked},
                                std::chrono::milliseconds(static_cast<int64_t>(timeout * 1000)), kMostAnswer);
  const char* const kTry = "run it by hand with";
  if (!said.is_whole)
    data_error("train", "{} did not answer in {} seconds; {} < {}, and raise {} if it takes so long", kRewardProgram, timeout, kTry,
               asked.string(), kRewardTimeout);
  if (said.exit_code != 0) data_error("train", "{}; {} < {}", ending(kRewardProgram, said.exit_code, said.errors), kTry, asked.string());
  const auto lines = split_list(said.output, '\n');
  const auto answer = lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines.back(), nullptr, /*allow_exceptions=*/false);
  std::vector<double> scores;
  for (const auto& score : answer.is_array() ? answer : nlohmann::json::array()) {
    if (score.is_number() && std::isfinite(score.get<double>())) scores.push_back(score.get<double>());
  }
  if (scores.size() != pictures.size() || answer.size() != pictures.size())
    data_error("train", "{} was to print a JSON list of {} numbers, one for each picture, and printed: {}; {} < {}", kRewardProgram,
               pictures.size(), lines.empty() ? "nothing" : end_of(lines.back()), kTry, asked.string());
  return at::tensor(scores, at::kDouble);
}

}  // namespace burnish::train
