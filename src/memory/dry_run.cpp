#include "memory/dry_run.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "kernels/place.h"
#include "memory/books.h"
#include "memory/meta_ops.h"
#include "memory/multiplications.h"
#include "memory/repeats.h"
#include "nn/recomputed_values.h"

namespace burnish::memory {

/// Takes the place of libtorch's allocator for the meta device, which gives out nothing and counts nothing.
class DryRun::Counting final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t num_bytes) override {
    auto books = current_;
    if (books == nullptr || kernels::place_of(c10::Device(c10::kMeta)).is_meta()) return {nullptr, c10::Device(c10::kMeta)};
    if (books->again) return data_of(books, (*books->again)++);
    const auto number = books->take(static_cast<int64_t>(num_bytes));
    return data_of(std::move(books), number);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* /*to*/, const void* /*from*/, size_t /*count*/) const override {}

  /// The one in use for as long as the program runs, since storages keep it to grow by.
  static Counting& installed() {
    static auto* counting = [] {
      constexpr uint8_t kPriority = 1;  // above libtorch's own
      auto* allocator = new Counting;
      c10::SetAllocator(c10::kMeta, allocator, kPriority);
      return allocator;
    }();
    return *counting;
  }

  std::shared_ptr<Books> current_;
};

class DryRun::OnPaper final : public Recorder {
 public:
  explicit OnPaper(std::shared_ptr<Books> books) : books_(std::move(books)) {}
  std::unique_ptr<Recording> record(const std::function<Tensors()>& work, Tensors& results) override {
    books_->records = true;
    results = work();
    books_->records = false;
    return std::make_unique<Recorded>();
  }

 private:
  struct Recorded final : Recording {
    void replay() override {}
  };
  std::shared_ptr<Books> books_;
};

/// While a block runs, writes down its parts.
class DryRun::Tracer final : public nn::Keeper {
 public:
  Tracer(const Books& books, std::string block) : books_(books), block_(std::move(block)) {}

  std::optional<nn::Tensors> kept(const nn::Tensors& inputs, const nn::Compute& compute) override {
    auto call = num_calls_++;
    return run(inputs, call, [&] { return compute(inputs); });
  }

  /// Runs a part, of the block or, where `call` is none, all of it.
  template <typename Body>
  nn::Tensors run(const nn::Tensors& inputs, std::optional<size_t> call, const Body& body) {
    RecomputablePart part{.block = block_, .call = call, .first = books_.allocations.size()};
    auto before = multiplications_.so_far();
    auto outputs = body();
    part.end = books_.allocations.size();
    part.multiplications = multiplications_.so_far() - before;
    part.inputs = numbers_of(inputs);
    part.outputs = numbers_of(outputs);
    parts.push_back(std::move(part));
    return outputs;
  }

  std::vector<RecomputablePart> parts;

 private:
  std::set<size_t> numbers_of(const nn::Tensors& tensors) const {
    std::set<size_t> numbers;
    for (const auto& tensor : tensors) {
      if (!tensor.defined() || !tensor.is_meta()) continue;
      if (auto number = number_in(tensor.storage(), books_)) numbers.insert(*number);
    }
    return numbers;
  }

  const Books& books_;
  std::string block_;
  Multiplications multiplications_;
  size_t num_calls_ = 0;
};

/// Runs a block as it would run unwatched.
class DryRun::Watch final : public nn::BlockRunner {
 public:
  Watch(std::shared_ptr<Books> books, std::string name, std::shared_ptr<nn::BlockRunner> inner)
      : books_(std::move(books)), name_(std::move(name)), inner_(std::move(inner)) {}

  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    auto first = at::sequence_number::peek();
    auto before = std::exchange(books_->places.now, books_->places.named("forward, " + name_));
    auto self = std::exchange(block.runner, inner_);
    auto outputs = books_->traces && at::GradMode::is_enabled() ? traced(block, inputs) : block.run(inputs);
    block.runner = self;
    books_->places.now = before;
    if (auto end = at::sequence_number::peek(); end > first)
      books_->places.nodes[end - 1] = {first, books_->places.named("backward, " + name_)};
    return outputs;
  }

 private:
  nn::Tensors traced(nn::Block& block, const nn::Tensors& inputs) {
    Tracer tracer(*books_, name_);
    auto outputs = tracer.run(inputs, std::nullopt, [&] { return block.run(inputs); });
    books_->parts.insert(books_->parts.end(), tracer.parts.begin(), tracer.parts.end());
    return outputs;
  }

  std::shared_ptr<Books> books_;
  std::string name_;
  std::shared_ptr<nn::BlockRunner> inner_;
};

namespace {
std::optional<kernels::StandIn>& stand_in() {
  static std::optional<kernels::StandIn> current;
  return current;
}
}  // namespace

DryRun::DryRun(c10::Device stands_for) : books_(std::make_shared<Books>()) {
  if (Counting::installed().current_) throw std::logic_error("two dry runs at once");
  register_meta_ops();
  stand_in().emplace(stands_for);
  Counting::installed().current_ = books_;
}

DryRun::~DryRun() {
  repeats_.reset();
  Counting::installed().current_ = nullptr;
  stand_in().reset();
}

void DryRun::enter(const std::string& place) { books_->places.now = books_->places.named(place); }

void DryRun::watch(nn::Block& block, const std::string& name, const TrainedTensors& trained) {
  block.runner = std::make_shared<Watch>(books_, name, block.runner);
  if (repeats_) repeats_->know(block, trained);
}

void DryRun::repeat(std::shared_ptr<KnownBodies> known) { repeats_ = std::make_unique<Repeats>(books_, std::move(known)); }

bool DryRun::is_exact() const { return !repeats_ || repeats_->is_exact(); }

const Allocations& DryRun::allocations() const { return books_->allocations; }

std::unique_ptr<Recorder> DryRun::recorder() { return std::make_unique<OnPaper>(books_); }

void DryRun::trace() { books_->traces = true; }

const std::vector<RecomputablePart>& DryRun::parts() const { return books_->parts; }

std::optional<size_t> DryRun::number_of(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.is_meta()) return std::nullopt;
  return number_in(tensor.storage(), *books_);
}

int64_t DryRun::now() const { return books_->now; }

}  // namespace burnish::memory
