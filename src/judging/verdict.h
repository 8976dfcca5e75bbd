#pragma once
#include <string>
#include <vector>

#include "judging/scores.h"
#include "records/validation_losses.h"

namespace burnish::judging {

/// A save of a run with what is known of it.
struct Judged {
  int64_t step = 0;
  std::optional<double> validation_loss = {};
  std::optional<int64_t> drawn_at = {};  ///< the step of the previews that stand for it
  std::optional<Scores> scores = {};
  double mark = 0;          ///< 0 to 1, the mean of its standings beside the best saves
  bool is_overfit = false;  ///< whether it was saved after overfitting began
};

/// What is measured of saves, in words, which of two is better, and how far behind the best one a save stands at 0; of what is better low
/// this is a share of the best value. The way is fixed: one that goes to the worst save would make much of noise where all are equal, and
/// nothing of differences where one is worse by far.
struct Measure {
  const char* name;
  std::optional<double> (*of)(const Judged& save);
  bool is_better_low = false;
  double way = 0.1;
};
/// Returns those that marks are made of: validation loss, likeness, answer, variety. Likeness is that to held-out pictures where there are
/// some, since copies raise the one to training pictures.
const std::vector<Measure>& measures();

/// Says where overfitting began, and by what that is seen.
struct Overfitting {
  int64_t after = 0;           ///< the step up to which a run had not overfitted
  bool by_validation = false;  ///< the validation loss did not fall below its lowest value in three looks or more, and stayed above it
  bool by_copies = false;      ///< previews from then on are copies of training pictures
  bool by_held_out = false;    ///< previews from then on are nearer to training pictures than to held-out ones
};
/// Finds it; nothing where neither is seen. `saves` stand by rising step.
std::optional<Overfitting> find_overfitting(const std::vector<Judged>& saves, const std::vector<records::ValidationLoss>& losses);

/// Gives saves, which stand by rising step, their marks, and puts them into order, best first: those before overfitting began ahead of
/// others, those without a copy ahead of others, then by mark, then the earlier one.
void rank(std::vector<Judged>& saves, const std::optional<Overfitting>& overfitting);

/// Says in a sentence why the first of these, which `rank` put in order, is taken.
std::string why_first(const std::vector<Judged>& ranked);

}  // namespace burnish::judging
