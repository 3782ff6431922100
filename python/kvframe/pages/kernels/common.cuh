// What every kernel knows of a pool. The structs mirror launch.py; WORD is the size of a word in
// bytes, the largest that every address and stride is a multiple of.
typedef long long i64;
typedef unsigned long long u64;

#if WORD == 16
typedef uint4 word;
#elif WORD == 8
typedef uint2 word;
#elif WORD == 4
typedef unsigned int word;
#elif WORD == 2
typedef unsigned short word;
#else
typedef unsigned char word;
#endif

#define FEW 128      // copies that travel in the arguments of a launch
#define IN_FLIGHT 4  // loads of a thread before its first store
#define BESIDE 5     // the same of a thread with 32 registers
#define WARP 32

struct Pool {
    const u64* planes;  // address of each layer and part, layer by layer
    i64 block, token, head;  // strides in bytes
};

__device__ inline word* at(u64 plane, i64 offset) { return (word*)(plane + (u64)offset); }
