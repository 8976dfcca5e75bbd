#pragma once
#include <memory>

#include "data/read_ahead.h"
#include "train/course/course.h"

namespace burnish::train {

/// A batch as a stage takes it, on the CPU.
struct Batch {
  std::vector<pipeline::Values> samples;  ///< values of each visit's sample, its pictures as bytes
  pipeline::Values draws;
  BatchPart part = {};
  std::vector<int64_t> rows = {};  ///< rows of these samples
};

/// Brings the pictures of a batch into the range of models, where they lie (train/samples/pixels.h).
Batch in_model_range(Batch batch);

/// The keys of results that were computed ahead of training, by batch.
struct AheadResults {
  data::CacheSection* section = nullptr;
  std::map<BatchId, std::string> keys;
};

/// Samples and the results that were kept of them.
struct Source {
  const Samples& samples;
  const Kept& kept;
};

/// Puts batches together: kept results of samples, what else units read of these, draws, and results computed ahead of the draws.
class Feed {
 public:
  /// Everything that is named here must outlive the feed.
  Feed(const Course& course, const Source& training, std::optional<Source> held_out)
      : course_(course), training_(training), held_out_(held_out) {}

  /// Reads what `stage` needs of a batch, and what it takes from `ahead` once that is there.
  Batch batch(const pipeline::Stage& stage, const BatchId& id, const AheadResults* ahead = nullptr) const;
  /// Reads what `stage` needs of visits that no batch of the run has, with what is drawn for them.
  Batch visited(const pipeline::Stage& stage, const BatchVisits& visits) const;
  /// Has the stored values of a batch read from disk, and its pictures decoded, while something else is computed. Pictures are decoded for
  /// the batch that is asked for next.
  void prefetch(const pipeline::Stage& stage, const BatchId& id) const;
  /// Returns the samples that are trained.
  const Samples& samples() const { return training_.samples; }

 private:
  const Source& source(const BatchId& id) const { return id.held_out ? *held_out_ : training_; }
  const BatchVisits& visits(const BatchId& id) const;

  /// A batch whose samples are being loaded. The threads that load them read no more of the stage, which may be gone before they are.
  struct Loading {
    const pipeline::Stage* stage = nullptr;
    BatchId id;
    data::ReadAhead<pipeline::Values> samples;
  };

  const Course& course_;
  Source training_;
  std::optional<Source> held_out_;
  mutable std::optional<BatchVisits> visits_;  ///< visits of the batch that was asked for last: it is fetched ahead, and then taken
  mutable std::unique_ptr<Loading> loading_;   ///< null when nothing is loading; its threads read the sources
};

}  // namespace burnish::train
