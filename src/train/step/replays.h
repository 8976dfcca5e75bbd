#pragma once
#include "memory/recorder.h"
#include "train/course/feed.h"

namespace burnish::train {

/// Computes a function of batches by recordings of it: one for each set of shapes, made when they come for the third time, since the first
/// computation loads kernels and fills caches. A function that cannot be recorded is computed as usual. Whatever the function changes
/// beside its results a recording changes too, where it lay when it was recorded.
class Replays {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Compute = std::function<Tensors(Batch)>;

  /// `num_unrecorded` says how often shapes are computed as usual before they are recorded.
  explicit Replays(std::unique_ptr<memory::Recorder> recorder, int64_t num_unrecorded = 2)
      : recorder_(std::move(recorder)), num_unrecorded_(num_unrecorded) {}

  /// Returns what `compute` gives of the batch, whose tensors are on the device; some may be undefined. `constants` names all else that the
  /// function depends on and the device does not read. A recording writes into one set of results, also at the next call of equal shapes.
  Tensors run(const std::string& constants, Batch batch, const Compute& compute);

  /// Computes as usual from here on, and records anew, because what recordings read beside batches lies elsewhere now.
  void forget() { known_.clear(); }

 private:
  struct Recorded {
    int64_t num_seen = 0;
    bool is_given_up = false;
    Batch batch = {};  ///< the batch that the recording reads
    Tensors results = {};
    std::unique_ptr<memory::Recording> recording = {};
  };
  void record(Recorded& known, const Batch& batch, const Compute& compute);

  std::unique_ptr<memory::Recorder> recorder_;
  int64_t num_unrecorded_;
  std::map<std::string, Recorded> known_;
};

}  // namespace burnish::train
