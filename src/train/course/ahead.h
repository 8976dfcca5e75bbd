#pragma once
#include "train/course/feed.h"
#include "train/samples/compute.h"

namespace burnish::train {

/// The results of computing ahead.
struct Ahead {
  bool done = false;     ///< false when the results would take more than they may; then none of them is to be used
  double num_bytes = 0;  ///< bytes of all results, by the size of the first
  AheadResults results;
};

/// Runs the units of `schedule.ahead` for the batches that are named, before the first step. Noise and timesteps have keys, so all draws
/// are known beforehand; the models that only these units run are then not in memory during training. Every batch is computed as the
/// training step would compute it, so that losses are equal bit for bit.
///
/// Results are kept in `cache`, by the SHA-256 of the bytes that the units read. As soon as it is known, after the first result, that all
/// would take `byte_limit` bytes or more, nothing more is computed. An Error with Exit::interrupted on Ctrl-C.
Ahead compute_ahead(models::Model& model, const pipeline::Schedule& schedule, const Feed& feed, const std::vector<BatchId>& batches,
                    data::Cache& cache, c10::Device device, double byte_limit);

/// The most batches that are computed ahead: each is named by what it reads, and names of more take minutes and much memory.
constexpr int64_t kMostAhead = 1'000'000;

/// Returns the schedule without its ahead stage.
pipeline::Schedule nothing_ahead(const pipeline::Schedule& schedule);

/// Returns the bytes that results computed ahead may not reach, beside what is kept of the samples; `cache_bytes` is the limit of both
/// together, 0 for none.
double ahead_limit(const ScheduleSettings& settings, double cache_bytes, const models::Model& model, const pipeline::Schedule& schedule,
                   int64_t num_bytes_kept);

/// Counts the bytes of the models that only units computed ahead run.
int64_t ahead_weight_bytes(const models::Model& model, const pipeline::Schedule& schedule);

}  // namespace burnish::train
