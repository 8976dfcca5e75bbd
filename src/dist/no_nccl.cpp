#include <stdexcept>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "dist/nccl.h"

namespace burnish::dist {

std::string nccl_name(c10::Device /*device*/) { return ""; }

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& /*store*/, int64_t /*rank*/, int64_t /*size*/,
                                            std::chrono::milliseconds /*limit*/) {
  throw std::logic_error("this build has no NCCL, and no device has a name for it");
}

}  // namespace burnish::dist
