// Paging beside a link of any speed: how long a step takes whose blocks compute for a known time, while their weights come over a link of
// known bandwidth and latency, or from a file that is not in the system's cache. Prints a JSON object a case: seconds that blocks compute
// and that the link is busy, in forward and in backward, and that the step took (the median of three). Then what reading such a file takes
// through its mapping and as the pager reads it. With `reads GIB`: only that, of a file so large, read three times from end to end.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "io/files.h"
#include "io/safetensors.h"
#include "memory/file_copies.h"
#include "memory/paging.h"
#include "memory/recompute.h"

using namespace burnish;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kNumBlocks = 24, kNumel = 1 << 16;
constexpr double kLatency = 1e-4, kForward = 8e-3, kBackward = 2 * kForward;  // seconds; of a block

/// Copies at once, and says that they came when a link would have brought them.
class Link final : public memory::CopyQueue {
 public:
  explicit Link(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  std::shared_ptr<Arrival> go(const Copies& copies) override {
    double num_bytes = 0;
    for (const auto& [to, from] : copies) {
      to.copy_(from);
      num_bytes += static_cast<double>(to.nbytes());
    }
    const Seconds takes(num_bytes / bytes_per_second_);
    busy += takes.count();
    free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
    return std::make_shared<At>(free_ + std::chrono::duration_cast<Clock::duration>(Seconds(kLatency)));
  }
  void synchronize() override { std::this_thread::sleep_until(free_); }

  double busy = 0;  ///< seconds

 private:
  struct At final : Arrival {
    explicit At(Clock::time_point time) : when(time) {}
    void wait() const override { std::this_thread::sleep_until(when); }
    Clock::time_point when;
  };

  double bytes_per_second_;
  Clock::time_point free_ = Clock::now();
};

void compute(double seconds) { std::this_thread::sleep_for(Seconds(seconds)); }

/// The identity, which takes its time in both directions and reads a weight.
struct Work : torch::autograd::Function<Work> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            std::function<void()>* trained) {
    ctx->saved_data["trained"] = reinterpret_cast<int64_t>(trained);
    compute(kForward);
    if (weight.storage().data() == nullptr) throw std::logic_error("a block without weights");
    return x.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    compute(kBackward);
    (*reinterpret_cast<std::function<void()>*>(ctx->saved_data["trained"].toInt()))();
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

struct Layer : nn::Block {
  explicit Layer(int64_t numel = kNumel) : weight(at::randn({numel})) { own("weight", weight); }
  nn::Tensors body(const nn::Tensors& in) override { return {Work::apply(in[0], weight, &trained)}; }
  at::Tensor weight;
  std::function<void()> trained = [] {};
};

struct Case {
  bool trains, recomputes;
  double ratio;  ///< of the time in which a block's weights come to that in which it computes forward
  size_t num_places;
};

/// Seconds of a direction, of all blocks.
struct Busy {
  double compute, link;
};

std::string to_json(const Busy& busy) { return fmt::format(R"({{"compute": {:.4f}, "link": {:.4f}}})", busy.compute, busy.link); }

double computes_forward() { return static_cast<double>(kNumBlocks) * kForward; }
double computes_backward(bool recomputes) { return static_cast<double>(kNumBlocks) * ((recomputes ? kForward : 0) + kBackward); }

void measure(const Case& c) {
  auto link = std::make_shared<Link>(kNumel * 4 / (c.ratio * kForward));
  auto pager = std::make_shared<memory::Pager>(std::make_shared<memory::HostStore>(c10::Device(c10::kCPU), link), c10::Device(c10::kCPU),
                                               c.num_places);
  std::vector<std::unique_ptr<Layer>> blocks;
  for (int64_t i = 0; i < kNumBlocks; ++i) {
    auto& block = *blocks.emplace_back(std::make_unique<Layer>());
    pager->take(block);
    block.runner = pager->runner();
    if (c.trains) block.trained = [pager, i] { pager->mark_changed(static_cast<size_t>(i)); };
    if (c.recomputes) block.runner = memory::recompute(block.runner);
  }
  pager->make_places();
  double in_forward = 0;
  auto step = [&] {
    auto y = at::ones({4}).requires_grad_(true);
    for (auto& block : blocks) y = block->run({y})[0];
    in_forward = link->busy;
    torch::autograd::backward({y.sum()}, {});
  };
  step();  // after which places are full, as they are between steps
  link->synchronize();
  std::array<double, 3> steps{};
  for (auto& took : steps) {
    link->busy = 0;
    const auto start = Clock::now();
    step();
    link->synchronize();
    took = Seconds(Clock::now() - start).count();
  }
  std::ranges::sort(steps);
  const Busy forward{computes_forward(), in_forward}, backward{computes_backward(c.recomputes), link->busy - in_forward};
  fmt::print(R"({{"trains": {}, "recomputes": {}, "ratio": {}, "places": {}, "forward": {}, "backward": {}, "step": {:.4f}}})"
             "\n",
             c.trains, c.recomputes, c.ratio, c.num_places, to_json(forward), to_json(backward), steps[1]);
}

/// Weights of all blocks in a file, which lies in the current folder while it lives.
class WeightFile {
 public:
  static constexpr int64_t kNumelOnDisk = 1 << 22;  // 16 MiB a block

  explicit WeightFile(size_t num_blocks, const std::function<at::Tensor(size_t block)>& weight_of = {}) {
    std::vector<io::TensorSpec> specs;
    for (size_t i = 0; i < num_blocks; ++i) specs.push_back({.name = std::to_string(i), .shape = {kNumelOnDisk}});
    io::SafetensorsWriter writer(path_, specs);
    const auto any = at::randn({kNumelOnDisk});
    for (size_t i = 0; i < num_blocks; ++i) writer.write(specs[i].name, weight_of ? weight_of(i) : any);
    writer.commit();
    file_ = io::SafetensorsFile::open(path_);
    opened_ = std::make_unique<io::InputFile>(path_);
  }
  ~WeightFile() { std::filesystem::remove(path_); }
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  at::Tensor weight(size_t block) const { return file_->tensor(std::to_string(block)); }
  /// Takes the file out of the system's cache.
  void drop() const { ::posix_fadvise(opened_->descriptor(), 0, 0, POSIX_FADV_DONTNEED); }
  /// Seconds that reading it once from the disk takes.
  double time_to_read() const {
    drop();
    std::vector<char> part(1 << 22);
    const auto start = Clock::now();
    for (off_t at = 0; ::pread(opened_->descriptor(), part.data(), part.size(), at) > 0;) at += static_cast<off_t>(part.size());
    return Seconds(Clock::now() - start).count();
  }

 private:
  std::filesystem::path path_ = "bench_paging.safetensors";
  std::shared_ptr<io::SafetensorsFile> file_;
  std::unique_ptr<io::InputFile> opened_;
};

void measure_disk(bool recomputes, size_t num_places) {
  std::vector<std::unique_ptr<Layer>> blocks;
  for (int64_t i = 0; i < kNumBlocks; ++i) blocks.push_back(std::make_unique<Layer>(WeightFile::kNumelOnDisk));
  const WeightFile file(blocks.size(), [&](size_t i) { return blocks[i]->weight; });
  const auto device = c10::Device(c10::kCPU);
  auto pager = std::make_shared<memory::Pager>(std::make_shared<memory::HostStore>(device), device, num_places);
  for (size_t i = 0; i < blocks.size(); ++i) {
    pager->take(*blocks[i], [&file, i](const std::string& /*name*/) { return file.weight(i); });
    blocks[i]->runner = pager->runner();
    blocks[i]->trained = [&file] { file.drop(); };  // what forward has read is read anew by backward
    if (recomputes) blocks[i]->runner = memory::recompute(blocks[i]->runner);
  }
  pager->make_places();
  const double link = file.time_to_read();
  file.drop();
  const auto start = Clock::now();
  auto y = at::ones({4}).requires_grad_(true);
  for (auto& block : blocks) y = block->run({y})[0];
  file.drop();
  torch::autograd::backward({y.sum()}, {});
  const double took = Seconds(Clock::now() - start).count();
  const Busy forward{computes_forward(), link}, backward{computes_backward(recomputes), link};
  fmt::print(R"({{"on_disk": true, "recomputes": {}, "places": {}, "forward": {}, "backward": {}, "step": {:.4f}}})"
             "\n",
             recomputes, num_places, to_json(forward), to_json(backward), took);
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// All weights in their order through the mapping alone, the system told of each before it is read.
void read_mapping(const WeightFile& file, size_t num_blocks, const at::Tensor& to) {
  for (size_t i = 0; i < num_blocks; ++i) {
    const auto mapped = file.weight(i);
    io::prefetch(mapped);
    std::memcpy(to.data_ptr(), mapped.const_data_ptr(), mapped.nbytes());
    memory::let_go(mapped);
  }
}

/// Reads a file of so many blocks three times, which begins out of the system's cache.
void measure_reads(size_t num_blocks) {
  const WeightFile file(num_blocks);
  const auto to = at::ones({WeightFile::kNumelOnDisk});
  const auto device = c10::Device(c10::kCPU);
  const auto copy_queue = memory::copy_queue_from_files(device, std::make_shared<memory::HostStore>(device));
  const auto as_pager = [&] {
    for (size_t i = 0; i < num_blocks; ++i) copy_queue->go({{to, file.weight(i)}});
    copy_queue->synchronize();
  };
  for (const bool by_lane : {false, true}) {
    file.drop();
    for (int pass = 1; pass <= 3; ++pass) {
      const double processor = processor_seconds();
      const auto start = Clock::now();
      if (by_lane) as_pager();
      else read_mapping(file, num_blocks, to);
      fmt::print(R"({{"reads": "{}", "pass": {}, "bytes": {}, "seconds": {:.4f}, "processor": {:.4f}}})"
                 "\n",
                 by_lane ? "as the pager does" : "through the mapping", pass,
                 static_cast<int64_t>(num_blocks) * WeightFile::kNumelOnDisk * 4, Seconds(Clock::now() - start).count(),
                 processor_seconds() - processor);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "reads") {
    measure_reads(static_cast<size_t>(std::stoi(argv[2])) * 64);
    return 0;
  }
  at::set_num_threads(1);  // blocks sleep, and waking a second thread for each copy would be what is timed
  for (const bool trains : {false, true}) {
    for (const bool recomputes : {false, true}) {
      for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
        for (const size_t num_places : {1, 2, 4}) measure({trains, recomputes, ratio, num_places});
      }
    }
  }
  for (const bool recomputes : {false, true}) {
    for (const size_t num_places : {1, 2, 4}) measure_disk(recomputes, num_places);
  }
  measure_reads(kNumBlocks);
}
