#pragma once
#include <cstdint>

namespace burnish {

// Numbers beyond which an option is a slip of the finger, so that it ends in a sentence and not in memory or hours that nobody has.

constexpr int64_t kMostPixelsASide = 16384;          ///< a square of it is as many pixels as a picture may have that is read
constexpr int64_t kMostSamplerSteps = 10000;         ///< no model has more distinct noise levels than 1000
constexpr int64_t kMostPictures = 1'000'000;         ///< pictures that one command draws of a prompt
constexpr int64_t kMostTokens = 4096;                ///< tokens of a prompt; text encoders were trained on 512 at most
constexpr int64_t kMostRank = 16384;                 ///< rank of an adapter; few layers have a side that long
constexpr int64_t kMostThreads = 1024;               ///< more than machines have cores; thousands leave a machine unable to start a process
constexpr int64_t kMostEpochs = 1'000'000;           ///< times the sampler's 10^12 visits an epoch this is no overflow
constexpr int64_t kMostSteps = 1'000'000'000'000;    ///< 30,000 years at a step a second
constexpr int64_t kMostBatchesAStep = 1'000'000;     ///< a step cannot be stopped half-way
constexpr int64_t kMostInABatch = 1'000'000;         ///< samples of a batch
constexpr int64_t kMostRepeats = 1'000'000'000'000;  ///< visits of a sample in an epoch; the sampler counts as many of all samples
constexpr int64_t kMostVariants = 10'000;            ///< ways in which a picture is cut, each of which is listed and kept
constexpr int64_t kMostProcesses = 1'000'000;        ///< that share out a work
constexpr int64_t kMostBlocksNamed = 1'000'000;      ///< blocks of a model that an option counts; how many it has is said later
constexpr int64_t kMostSamples = 1'000'000'000'000'000'000;  ///< samples that a run visits in all its steps

}  // namespace burnish
