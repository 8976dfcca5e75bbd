#pragma once
#include <c10/core/Device.h>

#include <future>

namespace burnish::memory {

/// Has the libraries that compute on `device` start on a thread of their own, beside the reading and planning that comes before a run's
/// first product: oneDNN makes the code of its products, a GPU gets its context and handles. Nothing for the meta device, and where no
/// thread can be started. The result waits at its end; errors are left to whoever computes next, where they have a sentence.
std::future<void> wake(c10::Device device);

}  // namespace burnish::memory
