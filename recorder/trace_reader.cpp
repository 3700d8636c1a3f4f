#include "recorder/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "recorder/op.h"
#include "recorder/trace_writer.h"

namespace swapadvisor {
namespace {

template <class T>
T load(const std::uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Reads varints; once past the end, `ok` is false and every value is zero.
struct Input {
    const std::uint8_t* at;
    const std::uint8_t* end;
    bool ok = true;

    std::uint8_t byte() {
        if (at == end) {
            ok = false;
            return 0;
        }
        return *at++;
    }
    std::uint64_t number() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const std::uint8_t b = byte();
            value |= static_cast<std::uint64_t>(b & 0x7F) << shift;
            if (b < 0x80) return value;
        }
        ok = false;
        return 0;
    }
    std::uint64_t difference() {
        const std::uint64_t v = number();
        return v >> 1 ^ (~(v & 1) + 1);
    }
    std::uint64_t pair() {
        const std::uint64_t high = number(), low = number();
        if (high > 0xFFFFFFFF || low > 0xFFFFFFFF) ok = false;
        return high << 32 | low;
    }
};

class Decoder {
  public:
    // `words` has room for any record.
    Decoder(Input& in, std::uint64_t* words) : in_(in), words_(words) {}

    /// Number of words, 0: no record.
    std::size_t record() {
        const std::uint8_t type = in_.byte();
        const std::uint8_t flag = in_.byte();
        end_ = words_ + 1;
        if (!fields(static_cast<RecordType>(type), flag) || !in_.ok) return 0;
        const auto count = static_cast<std::size_t>(end_ - words_);
        words_[0] = record_header(static_cast<RecordType>(type), flag, count);
        return count;
    }

  private:
    void put(std::uint64_t word) { *end_++ = word; }
    bool small(std::size_t i) const { return words_[i] >> kMaxValueBits == 0; }

    bool fields(RecordType type, std::uint8_t flag) {
        switch (type) {
            case RecordType::allocate:
                put(last_.buffer += in_.difference());
                for (int i = 0; i < 3; ++i) put(in_.number());
                return flag <= 3 && small(2);
            case RecordType::release:
                put(last_.buffer += in_.difference());
                return true;
            case RecordType::op:
                return op(flag);
            case RecordType::duration:
            case RecordType::stall:
                put(last_.seq += in_.difference());
                put(in_.number());
                return small(2);
            case RecordType::content:
                put(last_.seq += in_.difference());
                put(in_.number());
                return flag <= 1;
            case RecordType::range:
                put(in_.number());
                return true;
            case RecordType::figure:
                put(in_.number());
                return flag <= kLastFigureKind && small(1);
            case RecordType::mark:
                return true;
            case RecordType::swap:
                put(last_.buffer += in_.difference());
                put(in_.number());
                put(last_.seq += in_.difference());
                return flag <= 5 && small(2);
            case RecordType::text:
                return text(flag);
            case RecordType::device:
                for (std::size_t i = 1; i < 7; ++i) {
                    put(in_.number());
                    if (!small(i)) return false;
                }
                return true;
        }
        return false;
    }

    bool op(std::uint8_t flag) {
        if (flag > static_cast<std::uint8_t>(OpKind::graph)) return false;
        put(last_.function += in_.difference());
        for (int i = 0; i < 4; ++i) put(in_.pair());
        put(last_.host_ns += in_.difference());
        const std::uint64_t touches = in_.number();
        if (touches > kMaxRecordWords - kOpFixedWords || !in_.ok) return false;
        for (std::uint64_t i = 0; i < touches; ++i) {
            const auto v = static_cast<std::int64_t>(in_.difference());
            last_.buffer += static_cast<std::uint64_t>(v >> 2);
            const std::uint64_t access = static_cast<std::uint64_t>(v) & 3;
            if (access == 0 || !in_.ok) return false;
            put(last_.buffer << 2 | access);
        }
        return true;
    }

    bool text(std::uint8_t flag) {
        if (flag > kLastTextKind) return false;
        put(in_.number());
        const std::uint64_t bytes = in_.number();
        if (!in_.ok || bytes > kMaxTextBytes || bytes > static_cast<std::uint64_t>(in_.end - in_.at))
            return false;
        put(bytes);
        if (bytes == 0) return true;
        end_ += (bytes + 7) / 8;
        end_[-1] = 0;
        std::memcpy(words_ + 3, in_.at, bytes);
        in_.at += bytes;
        return true;
    }

    Input& in_;
    std::uint64_t* words_;
    std::uint64_t* end_ = nullptr;
    TraceDeltas last_;
};

static_assert(kMaxRecordWords >= 3 + (kMaxTextBytes + 7) / 8);

}  // namespace

bool decode_block(const std::uint8_t* raw, std::size_t size, std::vector<std::uint64_t>& words,
                  const TraceReader::Visitor& visit) {
    words.resize(kMaxRecordWords);
    Input in{raw, raw + size};
    Decoder decoder(in, words.data());
    while (in.at != in.end) {
        const std::size_t count = decoder.record();
        if (count == 0) return false;
        visit(words.data(), count);
    }
    return true;
}

TraceReader::TraceReader(const std::string& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) throw TraceError("cannot read " + path + ": " + std::strerror(errno));
    struct stat info {};
    if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
        ::close(fd_);
        throw TraceError(path + " is not a regular file: give the name of a trace");
    }
    file_bytes_ = static_cast<std::uint64_t>(info.st_size);
    std::uint8_t header[kTraceHeaderBytes] = {};
    std::string error;
    if (!read_at(0, header, sizeof header) || std::memcmp(header, "SWAPTRC\n", 8) != 0)
        error = path + " is not a trace: record one with 'swapadvisor record'";
    else if (const auto version = load<std::uint32_t>(header + 8);
             version < kOldestTraceVersion || version > kTraceVersion)
        error = path + " is a trace of version " + std::to_string(version) +
                ", this program reads versions " + std::to_string(kOldestTraceVersion) + " to " +
                std::to_string(kTraceVersion) + ": record it anew";
    if (!error.empty()) {
        ::close(fd_);
        throw TraceError(error);
    }
    offset_ = kTraceHeaderBytes;
    decompressor_ = ZSTD_createDCtx();
}

TraceReader::~TraceReader() {
    ZSTD_freeDCtx(static_cast<ZSTD_DCtx*>(decompressor_));
    ::close(fd_);
}

bool TraceReader::read_at(std::uint64_t offset, void* data, std::size_t bytes) const {
    auto* to = static_cast<std::uint8_t*>(data);
    while (bytes > 0) {
        const ssize_t n = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        to += n;
        offset += static_cast<std::uint64_t>(n);
        bytes -= static_cast<std::size_t>(n);
    }
    return true;
}

bool TraceReader::stop(const std::string& why) {
    damage_ = path_ + ": " + why + " at byte " + std::to_string(offset_) + " of " +
              std::to_string(file_bytes_) + ", what comes before it is used";
    return false;
}

bool TraceReader::next_block(const Visitor& visit) {
    if (!damage_.empty() || offset_ == file_bytes_) return false;
    std::uint8_t header[kTraceBlockHeaderBytes];
    if (file_bytes_ - offset_ < sizeof header || !read_at(offset_, header, sizeof header))
        return stop("cut short");
    const auto stored = load<std::uint32_t>(header + 4), raw = load<std::uint32_t>(header + 8);
    if (load<std::uint32_t>(header) != kTraceBlockMagic) return stop("damaged");
    if (raw > kMaxBlockBytes || stored > ZSTD_compressBound(kMaxBlockBytes)) return stop("damaged");
    if (file_bytes_ - offset_ - sizeof header < stored) return stop("cut short");
    stored_.resize(stored);
    raw_.resize(raw);
    if (!read_at(offset_ + sizeof header, stored_.data(), stored)) return stop("cut short");
    const std::uint64_t body = XXH3_64bits(stored_.data(), stored);
    if (XXH3_64bits_withSeed(header, 24, body) != load<std::uint64_t>(header + 24)) return stop("damaged");
    const std::size_t got =
        ZSTD_decompressDCtx(static_cast<ZSTD_DCtx*>(decompressor_), raw_.data(), raw, stored_.data(), stored);
    if (ZSTD_isError(got) || got != raw) return stop("damaged");
    if (!decode_block(raw_.data(), raw, words_, visit)) return stop("damaged");
    offset_ += sizeof header + stored;
    return true;
}

bool looks_like_trace(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    char magic[8] = {};
    const bool is = ::read(fd, magic, sizeof magic) == static_cast<ssize_t>(sizeof magic) &&
                    std::memcmp(magic, "SWAPTRC\n", 8) == 0;
    ::close(fd);
    return is;
}

}  // namespace swapadvisor
