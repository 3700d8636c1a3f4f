#include "recorder/trace_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "recorder/output_path.h"
#include "recorder/record.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kBlockTarget = 256 << 10;                     // raw bytes after which a block is closed
constexpr std::size_t kMaxRecordBytes = kMaxRecordWords * 10 + 64;  // no word takes more as a varint
constexpr int kCompressionLevel = 1;

template <class T>
void store(std::uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

}  // namespace

TraceWriter::~TraceWriter() {
    close();
    ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(compressor_));
}

bool TraceWriter::open(const std::string& path) {
    path_ = path;
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    // Another process is writing this file (a child that inherited the setting): ours gets a name of its own.
    if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        ::close(fd_);
        path_ = tagged_path(path, std::to_string(getpid()));
        fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    }
    if (fd_ >= 0 && ftruncate(fd_, 0) != 0 && errno != EINVAL) {  // EINVAL: a device or a pipe, which is fine
        ::close(fd_);
        fd_ = -1;
    }
    if (fd_ < 0) {
        error_ = "cannot write the trace " + path + ": " + std::strerror(errno);
        return false;
    }
    if (!compressor_) compressor_ = ZSTD_createCCtx();
    raw_.resize(kBlockTarget + kMaxRecordBytes);
    end_ = raw_.data();
    stored_.resize(kTraceBlockHeaderBytes + ZSTD_compressBound(raw_.size()));
    std::uint8_t header[kTraceHeaderBytes] = {'S', 'W', 'A', 'P', 'T', 'R', 'C', '\n'};
    store(header + 8, kTraceVersion);
    if (::write(fd_, header, sizeof header) != static_cast<ssize_t>(sizeof header)) fail("write");
    bytes_written_ = sizeof header;
    return is_open();
}

void TraceWriter::put(std::uint64_t value) {
    while (value >= 0x80) {
        *end_++ = static_cast<std::uint8_t>(value) | 0x80;
        value >>= 7;
    }
    *end_++ = static_cast<std::uint8_t>(value);
}

void TraceWriter::put_signed(std::uint64_t difference) {
    const auto value = static_cast<std::int64_t>(difference);
    put(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

void TraceWriter::append(const std::uint64_t* words, std::size_t count) {
    const auto difference = [](std::uint64_t& last, std::uint64_t now) {
        const std::uint64_t d = now - last;
        last = now;
        return d;
    };
    const RecordType type = record_type(words[0]);
    if (is_open()) {
        put_byte(static_cast<std::uint8_t>(type));
        put_byte(record_flag(words[0]));
        ++records_;
        switch (type) {
            case RecordType::allocate:
                put_signed(difference(last_.buffer, words[1]));
                for (int i = 2; i < 5; ++i) put(words[i]);
                break;
            case RecordType::release:
                put_signed(difference(last_.buffer, words[1]));
                break;
            case RecordType::op:
                put_signed(difference(last_.function, words[1]));
                for (int i = 2; i < 6; ++i) {
                    put(words[i] >> 32);
                    put(words[i] & 0xFFFFFFFF);
                }
                put_signed(difference(last_.host_ns, words[6]));
                put(count - kOpFixedWords);
                for (std::size_t i = kOpFixedWords; i < count; ++i) {
                    put_signed(difference(last_.buffer, words[i] >> 2) << 2 | (words[i] & 3));
                }
                break;
            case RecordType::duration:
            case RecordType::stall:
            case RecordType::content:
                put_signed(difference(last_.seq, words[1]));
                put(words[2]);
                break;
            case RecordType::range:
            case RecordType::figure:
                put(words[1]);
                break;
            case RecordType::mark:
                break;
            case RecordType::swap:
                put_signed(difference(last_.buffer, words[1]));
                put(words[2]);
                put_signed(difference(last_.seq, words[3]));
                break;
            case RecordType::text: {
                put(words[1]);
                put(words[2]);
                std::memcpy(end_, words + 3, words[2]);
                end_ += words[2];
                break;
            }
            case RecordType::device:
                for (int i = 1; i < 7; ++i) put(words[i]);
                break;
        }
    }
    if (type == RecordType::op) ++ops_;
    if (is_open() && raw_bytes() >= kBlockTarget) flush();
}

void TraceWriter::flush() {
    if (!is_open() || records_ == 0) return;
    std::uint8_t* header = stored_.data();
    const std::size_t stored = ZSTD_compressCCtx(
        static_cast<ZSTD_CCtx*>(compressor_), header + kTraceBlockHeaderBytes,
        stored_.size() - kTraceBlockHeaderBytes, raw_.data(), raw_bytes(), kCompressionLevel);
    if (ZSTD_isError(stored)) return fail("compress");
    store(header, kTraceBlockMagic);
    store(header + 4, static_cast<std::uint32_t>(stored));
    store(header + 8, static_cast<std::uint32_t>(raw_bytes()));
    store(header + 12, records_);
    store(header + 16, block_first_op_);
    // The sum covers the header's own fields too: hash of the body, then of the header with that as seed.
    const std::uint64_t body = XXH3_64bits(header + kTraceBlockHeaderBytes, stored);
    store(header + 24, static_cast<std::uint64_t>(XXH3_64bits_withSeed(header, 24, body)));
    const std::size_t total = kTraceBlockHeaderBytes + stored;
    for (std::size_t done = 0; done < total;) {
        const ssize_t n = ::write(fd_, header + done, total - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail("write");
        done += static_cast<std::size_t>(n);
    }
    bytes_written_ += total;
    end_ = raw_.data();
    records_ = 0;
    last_ = {};
    block_first_op_ = ops_;
}

void TraceWriter::fail(const char* what) {
    error_ = "the trace " + path_ + " ends early: cannot " + what + ": " + std::strerror(errno);
    ::close(fd_);
    fd_ = -1;
    end_ = raw_.data();
}

void TraceWriter::close() {
    if (!is_open()) return;
    flush();
    if (is_open()) ::close(fd_);
    fd_ = -1;
}

void TraceWriter::abandon() {
    if (is_open()) ::close(fd_);
    fd_ = -1;
    end_ = raw_.data();
}

}  // namespace swapadvisor
