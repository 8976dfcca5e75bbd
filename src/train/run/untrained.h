#pragma once
#include "train/course/feed.h"
#include "train/run/opened.h"
#include "train/samples/kept.h"
#include "train/step/trainee.h"

namespace burnish::train {

/// The samples of a run beside its model as it is before anything trains, with an adapter on it that changes nothing yet: what is asked of
/// samples before a run is made of this. Samples are drawn for as held-out ones are: at the same few times each.
class Untrained {
 public:
  /// A question that is asked of samples.
  struct Question {
    std::string is;              ///< what is asked, for messages: "captions are compared"
    int64_t rank = 1;            ///< of the adapter
    bool with_backward = false;  ///< whether gradients are taken, so that what a run saves memory by in backward is of use
    /// Picks that are encoded, of samples under captions; none: each sample under its own caption.
    std::function<std::vector<Pick>(const Samples&)> picks = {};
  };
  /// Encodes samples and loads the model. Throws a config Error for a run from a cache alone.
  Untrained(const TrainOptions& options, const Question& question);
  Untrained(const Untrained&) = delete;
  Untrained& operator=(const Untrained&) = delete;

  const Samples& samples() const { return run_.samples(); }
  const Kept& kept() const { return *kept_; }
  const Objective& objective() const { return *run_.objective; }
  Trainee& trainee() { return *trainee_; }
  int64_t num_draws() const { return run_.objective->num_held_out_draws(); }
  /// Returns a batch of the sample at this place in the list of samples, at one of the draws.
  Batch batch(int64_t place, int64_t draw) const { return feed_->batch(trainee_->live, {true, place * num_draws() + draw}); }

 private:
  Opened run_;
  pipeline::Schedule schedule_;
  std::optional<Kept> kept_;
  std::optional<Course> course_;
  std::optional<Feed> feed_;
  std::optional<Trainee> trainee_;
};

/// Tells whether a sample is one that the run is about, and not of a class set.
inline bool is_asked_about(const Samples& samples, const Sample& sample) { return !samples.set_of(sample).of_class_set; }

}  // namespace burnish::train
