"""The Python face: `KVCacheManager` through NumPy buffers."""
