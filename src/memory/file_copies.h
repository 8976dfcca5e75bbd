#pragma once
#include "memory/host_store.h"

namespace burnish::memory {

/// Gives the memory back that reading a mapped tensor filled.
void let_go(const at::Tensor& mapped);

/// Tensors in mapped files to a device, read by a MappedReader on a thread of its own in the order in which they are asked for. Their
/// pages are given back once they are read, so that a file takes memory only for what is on its way; what the system keeps of it in its
/// cache is the system's.
/// On the way to another device than the CPU they pass through memory of `store`, as much as what was asked for and has not been waited
/// for.
std::shared_ptr<CopyQueue> copy_queue_from_files(c10::Device device, std::shared_ptr<HostStore> store);

}  // namespace burnish::memory
