// A loader's work on a clip: frames by their times, scaled and cut.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "data/clip.h"
#include "data/resize.h"

namespace burnish::data {
namespace {

constexpr Size kTarget{480, 832};
constexpr int64_t kFrames = 81, kRate = 16;

/// The clips in the folder that BURNISH_BENCH_CLIPS names, one an iteration and all of them in turn: for benchmarks/clips.py.
void from_folder(benchmark::State& state) {
  const auto* folder = std::getenv("BURNISH_BENCH_CLIPS");
  if (folder == nullptr) return state.SkipWithError("BURNISH_BENCH_CLIPS names no folder");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::vector<Fraction> times;
  for (int64_t k = 0; k < kFrames; ++k) times.push_back({k, kRate});
  size_t next = 0;
  for (auto _ : state) {
    auto frames = at::empty({kFrames, kTarget.height, kTarget.width, 3}, at::TensorOptions().dtype(at::kByte));
    for_frames_at(files[next++ % files.size()], times, /*of_alpha=*/false,
                  [&](int64_t k, const at::Tensor& frame) { frames[k].copy_(resize_and_crop(frame, kTarget)); });
    benchmark::DoNotOptimize(frames.data_ptr());
  }
}

BENCHMARK(from_folder)->Name("clips/decode_resize")->Unit(benchmark::kMillisecond)->Iterations(4);

}  // namespace
}  // namespace burnish::data
