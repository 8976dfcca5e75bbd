#include "train/objectives/nft_options.h"

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/limits.h"
#include "base/number.h"
#include "base/text.h"
#include "data/archived_files.h"
#include "train/objectives/own_options.h"

namespace burnish::train {

namespace {

const char *const kRoundSteps = "nft_round_steps", *const kGroups = "nft_prompts_per_round", *const kGroupSize = "nft_pictures_per_prompt";
const char* const kDrawingSteps = "nft_num_inference_steps";
const char *const kBeta = "nft_beta", *const kKlWeight = "nft_kl_weight", *const kMostAdvantage = "nft_advantage_clip";
const char *const kMostDecay = "nft_old_decay", *const kDecayRise = "nft_old_decay_rise";
const char* const kReward = "reward";

constexpr double kMostPictures = 4096;

std::vector<models::Option> reward_options() {
  return {text_option(kReward,
                      "what scores the pictures, by commas, each with =FACTOR behind it or counting once: prompt and likeness, which "
                      "reward_model measures, and program; empty: program alone"),
          text_option(kRewardModel,
                      "a whole CLIP, which sees how a picture answers its prompt and how alike it is to the training pictures, and a "
                      "DINOv2, DINOv3 or SigLIP, which sees the second better: folders, or ids on a hub, with commas between, as "
                      "burnish best takes them"),
          text_option(kRewardProgram,
                      "command that the shell runs for each drawing: it reads a JSON list of {\"picture\": FILE, \"prompt\": TEXT} in one "
                      "line and prints a JSON list with a number for each"),
          positive_option(kRewardTimeout, "seconds in which that command has to answer", RewardOptions().timeout)};
}

/// Reads "prompt=1,likeness=0.5".
std::vector<RewardTerm> terms_of(const std::string& text) {
  std::vector<RewardTerm> terms;
  for (const auto& entry : split_list(text)) {
    const auto at = entry.find('=');
    RewardTerm term{std::string(trim(std::string_view(entry).substr(0, at)))};
    if (at != entry.npos) {
      const auto weight = parse_number<double>(trim(std::string_view(entry).substr(at + 1)));
      if (!weight || !std::isfinite(*weight))
        config_error("train", "{} '{}': behind = there must be a number; for example prompt=1,likeness=0.5", kReward, entry);
      term.weight = *weight;
    }
    const auto known = std::vector<std::string>{kLikenessReward, kPromptReward, kProgramReward};
    if (!contains(known, term.name)) config_error("train", "{} '{}' is not known; choose among {}", kReward, term.name, join(known));
    if (std::ranges::find(terms, term.name, &RewardTerm::name) != terms.end())
      config_error("train", "{} names {} twice; take one of the two out", kReward, term.name);
    terms.push_back(std::move(term));
  }
  return terms;
}

RewardOptions reward_of(const models::OptionValues& values) {
  RewardOptions reward{.terms = terms_of(values.get<std::string>(kReward)),
                       .models = split_list(values.get<std::string>(kRewardModel)),
                       .program = values.get<std::string>(kRewardProgram),
                       .timeout = values.get<double>(kRewardTimeout)};
  if (reward.terms.empty() && !reward.program.empty()) reward.terms.push_back({kProgramReward});
  if (reward.has(kProgramReward) && reward.program.empty())
    config_error("train", "{} counts a program, and none is named; give its command with --{}", kReward, kRewardProgram);
  if (!reward.has(kProgramReward) && !reward.program.empty())
    config_error("train", "{} is named, and {} does not count it; add program there, or take the command out", kRewardProgram, kReward);
  for (const char* judged : {kPromptReward, kLikenessReward}) {
    if (reward.has(judged) && reward.models.empty())
      config_error("train", "{} {} is measured by a model that looks at pictures; name one with --{} openai/clip-vit-large-patch14",
                   kReward, judged, kRewardModel);
  }
  return reward;
}

}  // namespace

bool RewardOptions::has(const char* name) const { return std::ranges::find(terms, name, &RewardTerm::name) != terms.end(); }

double OldPolicyRule::decay(int64_t num_steps) const { return std::min(most_decay, rise * static_cast<double>(num_steps)); }

std::vector<models::Option> nft_options() {
  const NftOptions otherwise;
  const auto& rounds = otherwise.rounds;
  std::vector<models::Option> options{
      text_option(kNftPrompts,
                  "file with a prompt a line, to draw under these and without any pictures; --height and --width say how large"),
      count_option(kRoundSteps, "optimizer steps between two drawings", rounds.num_steps, kMostPictures),
      count_option(kGroups, "prompts that each drawing is made under", rounds.num_groups, kMostPictures),
      count_option(kGroupSize, "pictures that are drawn of each prompt and compared with each other", rounds.group_size, kMostPictures),
      count_option(kDrawingSteps, "steps of the sampler in which they are drawn, without guidance", otherwise.num_inference_steps,
                   kMostSamplerSteps),
      positive_option(kBeta, "how far the better and the worse policy lie from the one that drew; below 1 holds the model closer to it",
                      otherwise.beta),
      number_option(kKlWeight, "factor on the squared distance of predictions from those of the model before training",
                    otherwise.kl_weight),
      positive_option(kMostAdvantage, "so many deviations from the mean of its group a picture is wholly good or wholly bad",
                      otherwise.most_advantage),
      number_option(kMostDecay, "highest decay of the average of what trains that draws; 0 draws with what trains",
                    otherwise.old_policy.most_decay, 0, 1),
      number_option(kDecayRise, "how much that decay grows a step, from 0 on", otherwise.old_policy.rise, 0, 1)};
  options.at(3).least = 2;
  for (auto& option : reward_options()) options.push_back(std::move(option));
  return options;
}

std::vector<OwnCondition> nft_conditions() {
  auto has_program = [](const models::OptionValues& own) { return !own.get<std::string>(kRewardProgram).empty(); };
  auto decays = [](const models::OptionValues& own) { return own.get<double>(kMostDecay) > 0; };
  return {{kRewardTimeout, kRewardProgram, has_program}, {kDecayRise, "nft_old_decay above 0", decays}};
}

NftOptions nft_options_of(const models::OptionValues& values) {
  return {.rounds = {.num_steps = values.get<int64_t>(kRoundSteps),
                     .num_groups = values.get<int64_t>(kGroups),
                     .group_size = values.get<int64_t>(kGroupSize)},
          .num_inference_steps = values.get<int64_t>(kDrawingSteps),
          .beta = values.get<double>(kBeta),
          .kl_weight = values.get<double>(kKlWeight),
          .most_advantage = values.get<double>(kMostAdvantage),
          .old_policy = {.most_decay = values.get<double>(kMostDecay), .rise = values.get<double>(kDecayRise)},
          .reward = reward_of(values)};
}

std::vector<std::string> nft_prompts_of(const models::OptionValues& values) {
  const auto file = values.get<std::string>(kNftPrompts);
  if (file.empty()) return {};
  std::vector<std::string> prompts;
  for (const auto& line : split_list(data::read_file_bytes(file), '\n')) {
    if (const auto prompt = trim(line); !prompt.empty() && prompt.front() != '#') prompts.emplace_back(prompt);
  }
  if (prompts.empty()) data_error("train", "{} holds no prompts; write one a line", file);
  return prompts;
}

}  // namespace burnish::train
