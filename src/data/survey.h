#pragma once
#include "data/clip_survey.h"
#include "data/dataset.h"

namespace burnish::data {

/// 64 bits that say how a picture looks: of 8 rows of 9 gray pixels, whether each is brighter than the one to its right ("dHash"). Scaling,
/// recompression and small changes of colour leave most bits as they are.
uint64_t look_of(const at::Tensor& pixels_HW3);

constexpr int kBitsOfEqual = 3;  ///< that differ at most between looks of what is likely to be one picture
/// Groups of indices, each of two or more, whose looks differ by at most so many bits, fewer than 64, from another of the group.
std::vector<std::vector<size_t>> alike(const std::vector<uint64_t>& looks, int most_bits = kBitsOfEqual);

/// How sharp a picture is: the variance of the Laplacian of its grays (Pech-Pacheco et al. 2000), which is small where edges are soft. It
/// grows with what a pixel shows, so pictures are compared at one size.
double sharpness_of(const at::Tensor& pixels_HW3);

/// Rows of one extent, and the batches that an epoch makes of them.
struct BucketCount {
  Extent extent;
  std::vector<int64_t> rows = {};
  int64_t num_visits = 0, num_batches = 0;
};

struct CaptionCounts {
  int64_t num_captions = 0, num_empty = 0, num_different = 0;
  int64_t median_words = 0, most_words = 0;
  std::vector<std::pair<std::string, int64_t>> tags = {};  ///< and in how many captions each is, the most frequent first
};

/// The things that can be said of a dataset before training.
struct Survey {
  int64_t num_files = 0;                             ///< distinct usable pictures
  Size smallest = {}, largest = {};                  ///< sizes by area, before they are scaled and cut
  int64_t num_enlarged = 0;                          ///< rows whose picture is scaled up
  double cut_away = 0;                               ///< mean share of a picture that is cut off
  std::vector<BucketCount> buckets = {};             ///< counts of buckets by size
  std::vector<std::vector<std::string>> alike = {};  ///< files that look the same
  CaptionCounts captions = {};
  std::vector<ClipSurvey> clips = {};  ///< each clip that rows are windows of, once
};

/// Looks at all pictures of a dataset, in batches of `batch_size`. Of captions, tags are told apart by each subset's separator.
Survey survey(const Dataset& dataset, int64_t batch_size);

}  // namespace burnish::data
