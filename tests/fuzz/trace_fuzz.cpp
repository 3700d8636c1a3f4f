// libFuzzer target: whatever a trace file holds, reading it and reporting on it neither crashes nor hangs.
// The first byte chooses: the input as a file as it is, or as the raw records of blocks whose sums are right
// (else no mutation would get past the checksum).
//   make build/fuzz/trace_fuzz && build/fuzz/trace_fuzz -max_total_time=600 tests/fuzz/corpus_trace
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "recorder/late_frees.h"
#include "recorder/report_html.h"
#include "recorder/report_perfetto.h"
#include "recorder/trace_analysis.h"
#include "recorder/trace_reader.h"
#include "recorder/trace_writer.h"

using namespace swapadvisor;

namespace {

template <class T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string file_header() {
    std::string out = "SWAPTRC\n";
    put(out, kTraceVersion);
    put(out, std::uint32_t{0});
    return out;
}

void add_block(std::string& out, const std::uint8_t* raw, std::size_t size) {
    std::string stored(ZSTD_compressBound(size), '\0');
    stored.resize(ZSTD_compress(stored.data(), stored.size(), raw, size, 1));
    std::string header;
    put(header, kTraceBlockMagic);
    put(header, static_cast<std::uint32_t>(stored.size()));
    put(header, static_cast<std::uint32_t>(size));
    put(header, std::uint32_t{0});
    put(header, std::uint64_t{0});
    const std::uint64_t body = XXH3_64bits(stored.data(), stored.size());
    put(header, static_cast<std::uint64_t>(XXH3_64bits_withSeed(header.data(), header.size(), body)));
    out += header + stored;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string file;
    if (data[0] % 4 == 0) {
        file.assign(reinterpret_cast<const char*>(data + 1), size - 1);
    } else {
        // The same records several times over, as a loop would leave them.
        file = file_header();
        for (int i = 0; i < data[0] % 4 * 2; ++i) add_block(file, data + 1, size - 1);
    }
    static const int fd = memfd_create("trace", 0);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size()))
        abort();
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    try {
        const TraceAnalysis trace = analyse_trace(path);
        if (trace.damage.find('\n') != std::string::npos) abort();
        report_text(trace.model);
        report_json(trace.model);
        report_perfetto(trace.model);
        if (report_html(trace.model).size() > kMaxHtmlBytes) abort();
        if (trace.iteration) {
            graph_json(*trace.iteration, trace.device, trace.names());
            graph_json(kept_until_freed(*trace.iteration), trace.device, trace.names());
        }
    } catch (const TraceError& error) {
        if (std::strchr(error.what(), '\n')) abort();
    }
    return 0;
}
