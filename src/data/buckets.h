#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/size.h"

namespace burnish::data {

/// Sizes of about one area, of which each picture takes the one nearest its shape, so that little of it is cut off.
struct BucketRule {
  enum class Kind {
    kohya,      ///< sd-scripts: sides from `least` to `most`, in steps
    onetrainer  ///< OneTrainer: nine shapes from 1:1 to 1:4 and their transposes, each side rounded to a step
  } kind = Kind::kohya;
  Size resolution;  ///< the size whose area is the buckets'
  int64_t least = 256, most = 1024, step = 64;
  bool upscale = false;  ///< scales small pictures up; else they keep their size, each side rounded down to a step
};

/// Throws a config Error for numbers that give no bucket, and for steps that are no multiple of `division`.
void check_buckets(const BucketRule& rule, int64_t division);

/// The list of sizes, by rising width. Of Kind::kohya: library/model_util.py, make_bucket_resolutions; of Kind::onetrainer:
/// mgds/pipelineModules/AspectBucketing.py.
std::vector<Size> bucket_sizes(const BucketRule& rule);

/// The size that a picture is trained at. Kind::kohya without upscaling takes no size of the list but the picture's own, scaled down to the
/// area and rounded down to steps (library/train_util.py, BucketManager.select_bucket); Kind::onetrainer without it does so for pictures
/// that their bucket is too large for. A side is 0 where the picture is smaller than a step.
Size bucket_of(const BucketRule& rule, Size picture);

}  // namespace burnish::data
