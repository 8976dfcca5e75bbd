#pragma once
#include <string>
#include <vector>

#include "models/model/model.h"
#include "train/objectives/objective_kind.h"

namespace burnish::train {

// Distribution matching distillation: a student that draws in few steps, held to a teacher's distribution by a second model, which learns
// what the student makes (the fake score), and by a discriminator (DMD2, Yin et al. 2024, arXiv 2405.14867). Formulas, names and defaults
// are those of DiffSynth-Studio (diffsynth/diffusion/dmd2.py), whose phases count batches where these count steps.

/// Settings of how the times are drawn at which what the student makes is judged, as shares of noise.
struct MatchingTimes {
  double least = 0.001, most = 0.999;
  bool is_logit_normal = false;  ///< whether they are the logistic function of normal numbers, scaled to lie between the two; else uniform
  double mean = 0, deviation = 1;  ///< of these numbers
};

/// Settings of the discriminator: what it is, and how it counts.
struct AdversarialLoss {
  double weight = 0.03;                  ///< factor on its part of the student's loss; 0: there is no discriminator
  double r1_weight = 0, r1_alpha = 0.1;  ///< factor on how far its logits move with data that moves by so much noise, which is R1's idea
  std::vector<int64_t> features = {};    ///< numbers of the blocks that it reads behind; none: the middle one
  double learning_rate = 0;              ///< 0: the run's
  bool is_on() const { return weight > 0; }
  bool has_r1() const { return is_on() && r1_weight > 0; }
};

/// The options of DMD2 as numbers.
struct Dmd2Options {
  int64_t student_update_freq = 5;          ///< of so many steps the first is the student's
  std::vector<double> student_sigmas = {};  ///< times at which the student's steps begin, falling, and 0 behind them
  bool draws_noise = true;                  ///< whether it draws with new noise at each step; else along its velocity
  bool simulates = false;                   ///< whether it learns from its own drawings, as far as a step; else from noisy data
  double student_max_grad_norm = 10;        ///< 0: none
  double teacher_cfg_scale = 1;
  MatchingTimes matching = {};
  AdversarialLoss adversarial = {};
  double fake_score_rate = 0;       ///< learning rate; 0: the run's
  std::string fake_score = "auto";  ///< what of it trains: "adapter", "whole", or as the student
};
std::vector<models::Option> dmd2_options();
/// Returns what single options of DMD2 belong to.
std::vector<OwnCondition> dmd2_conditions();
/// Reads the options from their values. Throws a config Error for lists that cannot be read, or do not fit.
Dmd2Options dmd2_options_of(const models::OptionValues& values);

/// Returns the numbers of the blocks that the discriminator reads behind, rising: where none are named, the middle one of those that run
/// without reference pictures too. A config Error for one that the denoiser has not.
std::vector<int64_t> features_of(const AdversarialLoss& adversarial, const models::Model& model);

}  // namespace burnish::train
