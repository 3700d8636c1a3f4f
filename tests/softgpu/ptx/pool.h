// Host threads that stay alive between launches.
#pragma once

#include <functional>

namespace softgpu::ptx {

class Pool {
  public:
    static Pool& instance();
    /// Cores this process may use.
    static int cores();
    /// Calls work(0) .. work(n-1) at the same time, work(0) on the calling thread, and waits for all.
    void run(int n, const std::function<void(int)>& work);
};

}  // namespace softgpu::ptx
