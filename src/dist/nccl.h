#pragma once
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace burnish::dist {

/// A name of a device that no other of its machine has; "" where NCCL does not reach it, or this build has no NCCL.
std::string nccl_name(c10::Device device);

/// Makes c10d's ProcessGroupNCCL, whose failures are left to dist/watch.h. std::logic_error in a build without it.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
                                            std::chrono::milliseconds limit);

}  // namespace burnish::dist
