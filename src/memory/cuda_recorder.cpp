#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "base/error.h"
#include "memory/recorder.h"

namespace burnish::memory {

namespace {

class GraphRecording final : public Recording {
 public:
  explicit GraphRecording(std::unique_ptr<at::cuda::CUDAGraph> graph) : graph_(std::move(graph)) {}
  void replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

class GraphRecorder final : public Recorder {
 public:
  explicit GraphRecorder(c10::Device device) : device_(device), pool_(at::cuda::graph_pool_handle()) {}

  std::unique_ptr<Recording> record(const std::function<Tensors()>& work, Tensors& results) override {
    const c10::cuda::CUDAGuard on_device(device_);
    // Memory that the same work left behind when it was computed as usual would be there twice.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const c10::cuda::CUDAStreamGuard aside(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);  // other threads may use the GPU meanwhile, to save
    try {
      results = work();
    } catch (...) {
      give_up(*graph);
      throw;
    }
    graph->capture_end();
    return std::make_unique<GraphRecording>(std::move(graph));
  }

 private:
  /// Ends a recording that cannot be used. It may have been ended by what was wrong.
  void give_up(at::cuda::CUDAGraph& graph) const {
    try {
      graph.capture_end();
    } catch (const c10::Error&) {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_.index(), pool_);
    }
  }

  c10::Device device_;
  at::cuda::MempoolId_t pool_;
};

}  // namespace

std::unique_ptr<Recorder> recorder_of(c10::Device device) { return device.is_cuda() ? std::make_unique<GraphRecorder>(device) : nullptr; }

}  // namespace burnish::memory
