#pragma once
#include "train/samples/compute.h"
#include "train/samples/kept.h"
#include "train/samples/settings.h"

namespace burnish::train {

/// Runs the units of `schedule.once` over all samples and over the empty caption: every model is loaded, run over the samples that need it,
/// and dropped before the next, so that no two are in memory together. Those of `by_block` are read block by block. Results that are in the
/// cache are not computed again, and a model whose results are all there is never loaded.
Kept encode(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache, Portion portion = {},
            const std::set<std::string>& by_block = {});

/// Encodes these picks in place of the variants of each sample: the results have those of a row in the order in which they are given, and
/// the number of one among them takes the place of Pick::variant.
Kept encode_picks(models::Model& model, const pipeline::Schedule& schedule, const Samples& samples, data::Cache& cache,
                  std::vector<Pick> picks, const std::set<std::string>& by_block);

}  // namespace burnish::train
