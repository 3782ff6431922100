// Tokens of a layer: written where a slot mapping says, or read through a block table.
struct Tokens {
    Pool pool;           // planes: those of the layer
    u64 items[2];        // address of the first token of each part, outside the pool
    i64 token, head;     // their strides in bytes
    const i64* slots;    // writing: a slot a token
    const i64* table;    // reading: a page for each block of tokens, from that of token `start`
    i64 end;             // slots of the pool; others than 0 .. end - 1 are left out
    int start, count, parts, size;
    int heads, row;
};

__device__ inline i64 slot_of(const Tokens& t, int item) {
    if (t.slots) return t.slots[item];
    const int token = t.start + item;
    return t.table[token / t.size - t.start / t.size] * t.size + token % t.size;
}

__device__ inline void move_tokens(const Tokens& t, bool write) {
    const i64 units = (i64)t.count * t.parts;
    const int length = t.row / WORD, words = length * t.heads;
    for (i64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int item = (int)(unit / t.parts), part = (int)(unit % t.parts);
        const i64 slot = slot_of(t, item);
        if (slot < 0 || slot >= t.end) continue;
        const u64 inside = t.pool.planes[part] +
            (u64)(slot / t.size * t.pool.block + slot % t.size * t.pool.token);
        const u64 outside = t.items[part] + (u64)(item * t.token);
        for (int i = threadIdx.x; i < words; i += blockDim.x) {
            const int head = i / length, within = i - head * length;
            word* page = at(inside, head * t.pool.head) + within;
            word* own = at(outside, head * t.head) + within;
            if (write) *page = *own; else *own = *page;
        }
    }
}

extern "C" __global__ void write_tokens(const __grid_constant__ Tokens t) { move_tokens(t, true); }

extern "C" __global__ void read_tokens(const __grid_constant__ Tokens t) { move_tokens(t, false); }
