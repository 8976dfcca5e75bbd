#pragma once
#include <cstdint>

#include "data/alteration.h"

namespace burnish::data {

/// How much pictures are changed in one way: by a number that is drawn for each variant, up to `random` either way, or by `fixed`.
struct Amount {
  double random = 0, fixed = 0;
  bool is_none() const { return random == 0 && fixed == 0; }
};

/// Ways to cut and change a picture. Variant v of a picture is a function of v and of its name in the metadata, so that a cache of variants
/// stays good whatever the seed of a run and however the rows are ordered. Amounts are OneTrainer's (util/config/ConceptConfig.py, and
/// mgds/pipelineModules/Random*.py, where random goes before fixed).
struct Augmentation {
  bool random_crop = false;                                ///< anywhere in the scaled picture; else the centre
  bool random_flip = false;                                ///< every other variant is mirrored; which ones is drawn for each picture
  bool fixed_flip = false;                                 ///< every variant is mirrored
  Amount rotate = {};                                      ///< degrees
  Amount brightness = {}, contrast = {}, saturation = {};  ///< added to a factor of 1, which stays at least 0
  Amount hue = {};                                         ///< half turns of the circle of hues
  int64_t num_variants = 1;                                ///< ways in which each picture is cut

  /// Tells whether variants differ, and whether pictures are seen otherwise than they are.
  bool varies() const;
  bool is_any() const;
  /// Tells whether pictures are turned, or their colours changed.
  bool alters() const;
};

/// Says how a variant of the picture with this name is altered.
Alteration alteration_of(const Augmentation& augmentation, uint64_t name, int64_t variant);

}  // namespace burnish::data
