#pragma once
#include <cstdint>
#include <string>

namespace burnish::dist {

/// The address of this machine from which it reaches `host`, in digits: that by which machines that reach `host` find it, whatever its own
/// name stands for. "" where the host is not known or there is no way to it.
std::string address_towards(const std::string& host, int64_t port);

/// The name of this machine.
std::string machine_name();

/// Tells whether a name or number is known as that of a machine.
bool has_address(const std::string& host);

}  // namespace burnish::dist
