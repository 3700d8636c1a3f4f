// Sharing memory and events between processes, and programs that poll memory.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <thread>

#include "driver_test.h"

using namespace driver_test;

namespace {

struct Channel {
    int ends[2];
    Channel() { THAT(pipe(ends) == 0); }
    template <class T>
    void send(const T& value) const {
        THAT(write(ends[1], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
    }
    template <class T>
    T receive() const {
        T value{};
        THAT(read(ends[0], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
        return value;
    }
};

}  // namespace

TEST_CASE("processes: legacy IPC shares memory and orders by events") {
    RUN_IN_CHILD("", [] {
        const Channel to_importer, to_exporter;
        const pid_t importer = fork();  // before either uses the driver
        if (importer == 0) {
            int code = 1;
            try {
                const auto memory = to_importer.receive<CUipcMemHandle>();
                const auto event_handle = to_importer.receive<CUipcEventHandle>();
                Gpu gpu;
                CUdeviceptr p = 0, mine = 0;
                CUevent event = nullptr;
                OK(cuIpcOpenMemHandle(&p, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
                OK(cuIpcOpenEventHandle(&event, event_handle));
                EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
                OK(cuMemAlloc(&mine, 4));
                const CUstream s = Gpu::stream();
                OK(cuStreamWaitEvent(s, event, 0));
                OK(gpu.move(mine, p, s));
                OK(cuStreamSynchronize(s));
                EQUAL(Gpu::word(mine), 41u);
                OK(gpu.put(p, 42));
                OK(cuCtxSynchronize());
                OK(cuIpcCloseMemHandle(p));
                EXPECT(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
                code = 0;
            } catch (const std::exception& e) {
                std::fprintf(stderr, "importer: %s\n", e.what());
            }
            to_exporter.send(code);
            _exit(code);
        }
        Gpu gpu;
        CUdeviceptr p = 0;
        CUevent event = nullptr;
        OK(cuMemAlloc(&p, 5 * kMiB));
        OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        CUipcMemHandle memory;
        CUipcEventHandle event_handle;
        OK(cuIpcGetMemHandle(&memory, p));
        OK(cuIpcGetEventHandle(&event_handle, event));
        CUdeviceptr again = 0;
        EXPECT(cuIpcOpenMemHandle(&again, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
               CUDA_ERROR_INVALID_CONTEXT);
        OK(gpu.put(p, 41));
        OK(cuEventRecord(event, nullptr));
        to_importer.send(memory);
        to_importer.send(event_handle);
        OK(cuCtxSynchronize());
        EQUAL(to_exporter.receive<int>(), 0);
        EQUAL(Gpu::word(p), 42u);
        int status = 0;
        waitpid(importer, &status, 0);
    });
}

TEST_CASE("processes: a flag written by one stream orders another") {
    RUN_IN_CHILD("racecheck=1", [] {
        Gpu gpu;
        const CUstream a = Gpu::stream(), b = Gpu::stream();
        CUdeviceptr p = 0, flag = 0;
        OK(cuMemAlloc(&p, 64));
        OK(cuMemAlloc(&flag, 4));
        OK(cuMemsetD32(flag, 0, 1));
        OK(cuCtxSynchronize());
        OK(cuStreamWaitValue32(b, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        OK(gpu.move(p + 4, p, b));
        OK(gpu.put(p, 5, a));
        OK(cuStreamWriteValue32(a, flag, 1, 0));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(p + 4), 5u);
        EQUAL(softgpu_count("races"), 0u);
    });
}

TEST_CASE("processes: a program that only polls memory gets its answer") {
    RUN_IN_CHILD("idle=200ms", [] {
        Gpu gpu;
        void* host = nullptr;
        OK(cuMemAllocHost(&host, 4096));
        auto* word = static_cast<volatile unsigned*>(host);
        OK(gpu.put(reinterpret_cast<CUdeviceptr>(host), 7));
        while (*word != 7) usleep(1000);
        OK(cuCtxSynchronize());
    });
}

// A gate that opens while the device has nothing else to do: no event comes to start what stood behind it.
TEST_CASE(
    "processes: a kernel and copies behind a value that the host writes late run without any other work") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        void* host = nullptr;
        OK(cuMemAllocHost(&host, 4096));
        auto* flag = static_cast<unsigned*>(host);
        CUdeviceptr p = 0;
        OK(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 0, 16));
        const CUstream s = Gpu::stream();
        for (unsigned turn = 1; turn <= 3; ++turn) {
            OK(cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(host), turn, CU_STREAM_WAIT_VALUE_EQ));
            if (turn == 2)
                OK(cuMemcpyHtoDAsync(p, host, 4, s));
            else
                OK(gpu.put(p, turn, s));
            std::thread writer([&] {
                usleep(30000);  // by now the other thread waits for the stream
                std::atomic_ref(*flag).store(turn);
            });
            OK(cuStreamSynchronize(s));
            writer.join();
            EQUAL(Gpu::word(p), turn);
        }
    });
}

TEST_CASE("statistics and timeline are written at exit") {
    const std::string base = "/tmp/softgpu_driver_stats_" + std::to_string(getpid());
    RUN_IN_CHILD("stats=" + base + ".json,timeline=" + base + ".trace", [] {
        Gpu gpu;
        CUdeviceptr p = 0;
        OK(cuMemAlloc(&p, 4 * kMiB));
        OK(gpu.put(p, 1));
        softgpu_snapshot("half");
        OK(cuMemFree(p));
        // The reporter put buffers of its own behind these streams, which are gone when exit flushes them.
        for (std::ostream* stream : {&std::cout, &std::cerr, &std::clog}) stream->rdbuf(nullptr);
        std::exit(0);
    });
    std::ifstream stats(base + ".json"), timeline(base + ".trace");
    const std::string s((std::istreambuf_iterator<char>(stats)), {}),
        t((std::istreambuf_iterator<char>(timeline)), {});
    CHECK(s.find("\"label\": \"half\"") != std::string::npos);
    CHECK(s.find("\"cuLaunchKernel\": 1") != std::string::npos);
    CHECK(t.find("\"name\":\"store\"") != std::string::npos);
    std::remove((base + ".json").c_str());
    std::remove((base + ".trace").c_str());
}
