// Arguments of an op's kernel, shared between host and device. One by-value struct: whoever scans kernel
// arguments for device pointers finds the tensors' addresses at aligned 8-byte words of it.
#pragma once

struct OpTensor {
    unsigned long long address;
    unsigned long long last;  // offset of the last aligned 8-byte word
    unsigned read, write;     // read: mix what is there; write: leave a new stamp
};

template <int Capacity>
struct OpArguments {
    unsigned long long digest;  // address of the running digest of all ops
    unsigned long long seed;    // differs per op, the same in every iteration
    unsigned long long count;
    OpTensor tensors[Capacity];
};

constexpr int kSmallOp = 16, kLargeOp = 160;  // 160 tensors fill the 4 KiB that kernel arguments may take
