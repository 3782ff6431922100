// Pages filled with one byte; padding between pages is left alone.
struct Fill {
    Pool pool;
    const int* ids;  // `few` if null
    int count, planes;
    int tokens, heads, row;
    int byte;
    int few[3 * FEW];
};

extern "C" __global__ void fill_pages(const __grid_constant__ Fill f) {
    union { word w; unsigned char bytes[WORD]; } pattern;
#pragma unroll
    for (int i = 0; i < WORD; ++i) pattern.bytes[i] = (unsigned char)f.byte;
    const int length = f.row / WORD, words = length * f.heads * f.tokens;
    const i64 units = (i64)f.count * f.planes;
    for (i64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int which = (int)(unit / f.planes);
        const int id = f.ids ? f.ids[which] : f.few[which];
        const u64 page = f.pool.planes[unit % f.planes] + (u64)(id * f.pool.block);
        for (int i = threadIdx.x; i < words; i += blockDim.x) {
            const int row = i / length;
            const i64 offset = row / f.heads * f.pool.token + row % f.heads * f.pool.head;
            at(page, offset)[i - row * length] = pattern.w;
        }
    }
}
