#include "train/objectives/dmd2_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/number.h"
#include "train/objectives/own_options.h"

namespace burnish::train {

namespace {

const char* const kDmd2UpdateFreq = "dmd2_student_update_freq";
const char* const kDmd2Steps = "dmd2_student_sample_steps";
const char* const kDmd2SampleType = "dmd2_student_sample_type";
const char* const kDmd2Schedule = "dmd2_student_schedule";
const char* const kDmd2Times = "dmd2_student_t_list";
const char* const kDmd2Simulation = "dmd2_backward_simulation";
const char* const kDmd2MaxNorm = "dmd2_student_grad_clip_norm";
const char* const kDmd2Least = "dmd2_matching_t_min";
const char* const kDmd2Most = "dmd2_matching_t_max";
const char* const kDmd2Sampling = "dmd2_matching_t_sampling";
const char* const kDmd2Mean = "dmd2_matching_t_mean";
const char* const kDmd2Deviation = "dmd2_matching_t_std";
const char* const kDmd2GanWeight = "dmd2_gan_loss_weight";
const char* const kDmd2R1Weight = "dmd2_gan_r1_reg_weight";
const char* const kDmd2R1Alpha = "dmd2_gan_r1_reg_alpha";
const char* const kDmd2Features = "dmd2_feature_indices";
const char* const kDmd2DiscriminatorRate = "dmd2_discriminator_learning_rate";
const char* const kDmd2FakeScoreRate = "dmd2_fake_score_learning_rate";
const char* const kDmd2Guidance = "dmd2_teacher_cfg_scale";
const char* const kDmd2FakeScoreTrains = "dmd2_fake_score";

std::vector<models::Option> student_options() {
  return {
      count_option(kDmd2UpdateFreq, "of so many steps the first trains the student, and the others the fake score and the discriminator", 5,
                   1e6),
      count_option(kDmd2Steps, "steps in which the student draws", 4, kMostSamplerSteps),
      text_option(kDmd2SampleType, "how the student's pictures are drawn: sde, with new noise at each step, or ode, along its velocity",
                  "sde", {"sde", "ode"}),
      text_option(kDmd2Schedule, "how its steps are spaced where dmd2_student_t_list says nothing: uniform", "uniform", {"uniform"}),
      text_option(kDmd2Times, "comma list of the shares of noise at which its steps begin, and 0 behind them; \"\": uniform ones", ""),
      {.name = kDmd2Simulation,
       .help = "the student learns each of its steps from where its own earlier ones lead, from noise, as it draws; else from noisy data",
       .otherwise = false,
       .elsewhere = ""},
      number_option(kDmd2MaxNorm, "largest norm of the student's gradients, which are scaled down to it; 0: any", 10)};
}

std::vector<models::Option> score_options() {
  return {number_option(kDmd2Least, "least share of noise at which the student's pictures are judged", 0.001, 0, 1),
          number_option(kDmd2Most, "largest share of noise at which they are judged, and at most 0.999 at which its uniform steps begin",
                        0.999, 0, 1),
          text_option(kDmd2Sampling, "how these shares are drawn", "uniform", {"uniform", "logitnormal"}),
          number_option(kDmd2Mean, "of logitnormal: mean of the normal numbers", 0, {}),
          number_option(kDmd2Deviation, "of logitnormal: their standard deviation", 1),
          number_option(kDmd2Guidance, "the teacher's classifier-free guidance; 1 is without", 1, 1),
          text_option(kDmd2FakeScoreTrains, "what of the fake score trains: adapter, whole, or auto, which is as the student", "auto",
                      {"auto", "adapter", "whole"}),
          number_option(kDmd2FakeScoreRate, "learning rate of the fake score; 0: learning_rate", 0)};
}

std::vector<models::Option> adversarial_options() {
  return {
      number_option(kDmd2GanWeight, "factor on the discriminator's part of the student's loss; 0: there is no discriminator", 0.03),
      number_option(kDmd2R1Weight, "factor on how far the discriminator's logits of data move with a little noise; 0 is off", 0),
      number_option(kDmd2R1Alpha, "how much noise that is", 0.1),
      text_option(kDmd2Features,
                  "comma list of the denoiser's blocks, counted from 0, behind which the discriminator reads; \"\": the middle one", ""),
      number_option(kDmd2DiscriminatorRate, "learning rate of the discriminator; 0: learning_rate", 0)};
}

/// Parses a comma list of numbers from 0 up.
template <class Number>
std::vector<Number> numbers_in(const char* name, const std::string& list) {
  const auto numbers = parse_numbers<Number>(list);
  if (!numbers || std::ranges::any_of(*numbers, [](Number number) { return number < 0; }))
    config_error("train", "{} must be a comma list of numbers from 0 up, and '{}' is none", name, list);
  return *numbers;
}

std::vector<double> sigmas_of(const models::OptionValues& values) {
  const auto steps = values.get<int64_t>(kDmd2Steps);
  auto sigmas = numbers_in<double>(kDmd2Times, values.get<std::string>(kDmd2Times));
  if (sigmas.empty()) {
    constexpr double kHighestStart = 0.999;
    const auto first = std::min(values.get<double>(kDmd2Most), kHighestStart), n = static_cast<double>(steps);
    for (int64_t i = 0; i <= steps; ++i) sigmas.push_back(first * (n - static_cast<double>(i)) / n);
    return sigmas;
  }
  if (std::ssize(sigmas) != steps + 1)
    config_error("train", "{} has {} numbers; it takes one for each of {} {}, and a 0 behind them", kDmd2Times, sigmas.size(), kDmd2Steps,
                 steps);
  if (!diffusion::falls_to_zero(sigmas)) config_error("train", "{} must fall from at most 1 to 0, as 0.999,0.75,0.5,0.25,0", kDmd2Times);
  return sigmas;
}

/// Reads the options that are no lists, whose values cannot be wrong.
Dmd2Options without_lists(const models::OptionValues& values) {
  return {.student_update_freq = values.get<int64_t>(kDmd2UpdateFreq),
          .draws_noise = values.get<std::string>(kDmd2SampleType) == "sde",
          .simulates = values.get<bool>(kDmd2Simulation) && values.get<int64_t>(kDmd2Steps) > 1,
          .student_max_grad_norm = values.get<double>(kDmd2MaxNorm),
          .teacher_cfg_scale = values.get<double>(kDmd2Guidance),
          .matching = {.least = values.get<double>(kDmd2Least),
                       .most = values.get<double>(kDmd2Most),
                       .is_logit_normal = values.get<std::string>(kDmd2Sampling) == "logitnormal",
                       .mean = values.get<double>(kDmd2Mean),
                       .deviation = values.get<double>(kDmd2Deviation)},
          .adversarial = {.weight = values.get<double>(kDmd2GanWeight),
                          .r1_weight = values.get<double>(kDmd2R1Weight),
                          .r1_alpha = values.get<double>(kDmd2R1Alpha),
                          .learning_rate = values.get<double>(kDmd2DiscriminatorRate)},
          .fake_score_rate = values.get<double>(kDmd2FakeScoreRate),
          .fake_score = values.get<std::string>(kDmd2FakeScoreTrains)};
}

}  // namespace

std::vector<models::Option> dmd2_options() {
  auto options = student_options();
  for (auto more : {score_options(), adversarial_options()}) std::ranges::move(more, std::back_inserter(options));
  return options;
}

std::vector<OwnCondition> dmd2_conditions() {
  std::vector<OwnCondition> conditions;
  auto is_normal = [](const models::OptionValues& own) { return without_lists(own).matching.is_logit_normal; };
  for (const char* name : {kDmd2Mean, kDmd2Deviation}) conditions.push_back({name, "dmd2_matching_t_sampling logitnormal", is_normal});
  auto has_earlier_steps = [](const models::OptionValues& own) { return own.get<int64_t>(kDmd2Steps) > 1; };
  conditions.push_back({kDmd2Simulation, "dmd2_student_sample_steps above 1", has_earlier_steps});
  auto has_discriminator = [](const models::OptionValues& own) { return without_lists(own).adversarial.is_on(); };
  for (const char* name : {kDmd2R1Weight, kDmd2Features, kDmd2DiscriminatorRate})
    conditions.push_back({name, "dmd2_gan_loss_weight above 0", has_discriminator});
  auto has_r1 = [](const models::OptionValues& own) { return without_lists(own).adversarial.has_r1(); };
  conditions.push_back({kDmd2R1Alpha, "dmd2_gan_r1_reg_weight above 0", has_r1});
  return conditions;
}

Dmd2Options dmd2_options_of(const models::OptionValues& values) {
  auto options = without_lists(values);
  options.student_sigmas = sigmas_of(values);
  if (options.matching.least > options.matching.most)
    config_error("train", "{} {} is above {} {}; it is the least of these times", kDmd2Least, options.matching.least, kDmd2Most,
                 options.matching.most);
  auto features = numbers_in<int64_t>(kDmd2Features, values.get<std::string>(kDmd2Features));
  std::ranges::sort(features);
  features.erase(std::unique(features.begin(), features.end()), features.end());
  options.adversarial.features = std::move(features);
  return options;
}

/// Returns the numbers of the blocks that run in any case: blocks that get no gradient in any run are for reference pictures alone.
static std::vector<int64_t> blocks_that_run(nn::Module& skeleton, const std::vector<nn::Block*>& blocks, const std::string& denoiser,
                                            const models::Names& names) {
  std::map<const nn::Module*, std::string> paths;
  skeleton.visit([&](const std::string& path, nn::Module& module) { paths[&module] = path; });
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!names.is_without_gradient(denoiser + "." + paths.at(blocks[i]))) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

std::vector<int64_t> features_of(const AdversarialLoss& adversarial, const models::Model& model) {
  const auto& denoiser = model.names().experts.front().component;
  const auto skeleton = model.components().skeleton(denoiser);
  const auto& list = model.components().find(denoiser)->blocks;
  const auto blocks = list ? list(*skeleton) : nn::blocks_below(*skeleton);
  const auto num_blocks = std::ssize(blocks);
  if (adversarial.features.empty()) {
    const auto run = blocks_that_run(*skeleton, blocks, denoiser, model.names());
    return {run.at(run.size() / 2)};
  }
  if (adversarial.features.back() >= num_blocks)
    config_error("train", "{} names block {}, and this denoiser has {}, counted from 0", kDmd2Features, adversarial.features.back(),
                 num_blocks);
  return adversarial.features;
}

}  // namespace burnish::train
