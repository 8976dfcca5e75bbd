#pragma once
#include "train/objectives/objective_kind.h"
#include "train/objectives/round_rule.h"

namespace burnish::train {

// Diffusion negative-aware fine-tuning: a model learns from pictures that it drew itself, from better ones towards them and from worse ones
// away from them (DiffusionNFT, Zheng et al. 2025, arXiv 2509.16117). Defaults are those of the authors' program (NVlabs/DiffusionNFT,
// config/nft.py) where it has the number.

/// The names of what scores: how alike a picture is to the training pictures, how it answers its prompt, and a program of the user's.
inline const char *const kLikenessReward = "likeness", *const kPromptReward = "prompt", *const kProgramReward = "program";

/// A score that counts, and its factor in the sum.
struct RewardTerm {
  std::string name;
  double weight = 1;
};
/// Settings of what scores pictures.
struct RewardOptions {
  std::vector<RewardTerm> terms = {};
  std::vector<std::string> models = {};  ///< what looks at pictures: folders or ids on a hub, as `burnish best` takes them
  std::string program = {};              ///< command of the shell
  double timeout = 600;                  ///< seconds in which it has to answer

  bool has(const char* name) const;
};

/// The rule by which the average of what trains is taken that draws: behind round k, after s steps, its decay is min(most, s · rise).
struct OldPolicyRule {
  double most_decay = 0.5, rise = 0.001;
  double decay(int64_t num_steps) const;
};

/// The options of negative-aware fine-tuning as numbers.
struct NftOptions {
  RoundRule rounds = {};
  int64_t num_inference_steps = 10;  ///< steps of a drawing, which has no guidance
  double beta = 1;                   ///< how far the implicit policies lie from the one that drew
  double kl_weight = 1e-4;           ///< factor on the squared distance from the model before training
  double most_advantage = 5;         ///< deviations from the mean of its group at which a picture is wholly good or bad
  OldPolicyRule old_policy = {};
  RewardOptions reward = {};
};
std::vector<models::Option> nft_options();
/// Returns what single options belong to.
std::vector<OwnCondition> nft_conditions();
/// Reads the options from their values. Throws a config Error for a list of rewards that cannot be read, or what of it is missing.
NftOptions nft_options_of(const models::OptionValues& values);

/// Names the option of a file that has a prompt a line, for runs without pictures.
inline const char* const kNftPrompts = "nft_prompts";
inline const char *const kRewardModel = "reward_model", *const kRewardProgram = "reward_program", *const kRewardTimeout = "reward_timeout";
/// Returns the prompts of that file, without blank lines and those that begin with #; none where no file is named.
std::vector<std::string> nft_prompts_of(const models::OptionValues& values);

}  // namespace burnish::train
