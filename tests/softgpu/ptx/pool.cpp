#include "tests/softgpu/ptx/pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace softgpu::ptx {
namespace {

/// Workers of one process: a forked child has none of its parent's threads and starts its own. They are never
/// told to end, and tables of the engine are never destroyed: the device may be at work, and be called, while
/// the program's exit handlers run.
struct Threads {
    pid_t owner = getpid();
    std::mutex mutex, one_at_a_time;
    std::condition_variable wake, idle;
    const std::function<void(int)>* work = nullptr;
    int wanted = 0, running = 0;
    unsigned long generation = 0;
    std::vector<std::thread> all;

    void loop(int id) {
        unsigned long seen = 0;
        std::unique_lock lock(mutex);
        for (;;) {
            wake.wait(lock, [&] { return generation != seen && id < wanted; });
            seen = generation;
            const auto* f = work;
            lock.unlock();
            (*f)(id);
            lock.lock();
            if (--running == 0) idle.notify_all();
        }
    }
};

Threads& threads() {
    static std::mutex guard;
    static Threads* current = nullptr;
    std::lock_guard lock(guard);
    if (current == nullptr || current->owner != getpid()) {
        current = new Threads;  // a parent's copy is left alone: its threads do not exist here
    }
    return *current;
}

}  // namespace

Pool& Pool::instance() {
    static Pool pool;
    return pool;
}

int Pool::cores() {
    static const int n = [] {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
        return std::max(1, CPU_COUNT(&set));
    }();
    return n;
}

void Pool::run(int n, const std::function<void(int)>& work) {
    if (n <= 1) {
        if (n == 1) work(0);
        return;
    }
    Threads& t = threads();
    std::lock_guard one(t.one_at_a_time);
    {
        std::lock_guard lock(t.mutex);
        while (int(t.all.size()) < n - 1) {
            int id = int(t.all.size()) + 1;
            t.all.emplace_back([&t, id] { t.loop(id); });
        }
        t.work = &work;
        t.wanted = n, t.running = n - 1;
        ++t.generation;
    }
    t.wake.notify_all();
    work(0);
    std::unique_lock lock(t.mutex);
    t.idle.wait(lock, [&] { return t.running == 0; });
}

}  // namespace softgpu::ptx
