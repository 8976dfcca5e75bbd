#include "dist/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/host_name.h"

namespace burnish::dist {

namespace {

/// Returns the address of the socket that connecting chose; nothing is sent. "" where there is no way.
std::string own_address(const addrinfo& to) {
  int descriptor = ::socket(to.ai_family, SOCK_DGRAM, 0);
  if (descriptor < 0) return "";
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  std::array<char, NI_MAXHOST> text{};
  auto* address = reinterpret_cast<sockaddr*>(&own);
  bool is_there = ::connect(descriptor, to.ai_addr, to.ai_addrlen) == 0 && ::getsockname(descriptor, address, &size) == 0 &&
                  ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(descriptor);
  return is_there ? text.data() : "";
}

}  // namespace

std::string address_towards(const std::string& host, int64_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  for (auto* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    if (auto address = own_address(*entry); !address.empty()) return address;
  }
  return "";
}

bool has_address(const std::string& host) {
  addrinfo* found = nullptr;
  bool is_known = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0;
  if (is_known) ::freeaddrinfo(found);
  return is_known;
}

std::string machine_name() {
  const auto name = host_name();
  return name.empty() ? "a machine without a name" : name;
}

}  // namespace burnish::dist
