#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace burnish::judging {

/// What pictures that were drawn at a step stand for, as unit vectors, row by row.
struct Drawn {
  int64_t step = 0;
  std::vector<int64_t> numbers = {};  ///< of the previews, by which those of other steps are of one prompt and noise
  at::Tensor pictures_ND = {};
  at::Tensor answers_ND = {};  ///< the pictures as what places prompts too sees them; undefined where nothing does
  at::Tensor prompts_ND = {};  ///< of each one's prompt; undefined where none is known
};

/// Pictures that what a run drew is compared with, as unit vectors, row by row.
struct Beside {
  at::Tensor training_ND = {};
  at::Tensor held_out_ND = {};  ///< pictures of the same things that the run did not see; undefined where there are none
  double copies_from = 1;       ///< see copy_from
};

/// How pictures of a step compare with the training pictures, with their prompts and with each other; shares of likeness are cosines.
struct Scores {
  double likeness = 0;                           ///< to the training pictures, the mean over all pairs
  std::optional<double> answer = {};             ///< to the prompt of each
  std::optional<double> counted_variety = {};    ///< variety, at most that of the training pictures: a model before training has more
  std::optional<double> variety = {};            ///< 1 less the likeness of two of them, the mean over all pairs
  std::optional<double> drift = {};              ///< 1 less the likeness to the same preview before training
  double nearest = 0;                            ///< the largest likeness to one training picture
  int64_t nearest_preview = 0, nearest_row = 0;  ///< which two these are: a preview's number, and the row of a training picture
  int64_t num_copies = 0;                        ///< previews that are nearer to a training picture than `copy_from`
  std::optional<double> held_out = {};           ///< likeness to the held-out pictures, the mean over all pairs
  /// How much nearer the nearest training picture is than the nearest held-out one, the mean over previews: nothing where what was learned
  /// holds for pictures that were not seen. Of the larger set as many count as the smaller one has, in the mean over all choices of them.
  std::optional<double> memory = {};
  bool memorises = false;  ///< whether `memory` is more than before training, and more than chance makes it
};

/// Returns from which likeness on a preview counts as the copy of a training picture: halfway between what is usual between a training
/// picture and its nearest other, in the middle of all, and 1. Of one picture alone 0.9.
double copy_from(const at::Tensor& training_ND);

/// Returns the largest of `count` of these numbers [N], in the mean over all choices of so many.
double mean_largest_of(const at::Tensor& numbers_N, int64_t count);

/// Compares the pictures of a step; `before` is what was drawn ahead of training, null where nothing was.
Scores scores_of(const Drawn& drawn, const Beside& beside, const Drawn* before);

}  // namespace burnish::judging
