"""Namespaces that must share nothing: each field alone, and values that run together elsewhere."""

from __future__ import annotations

from typing import Any

from kvframe.request import MMItem

Space = dict[str, Any]

SPACES: dict[str, Space] = {
    "nobody": {},
    "tenant a": {"tenant": "a"},
    "tenant b": {"tenant": "b"},
    "salt a": {"cache_salt": "a"},
    "salt b": {"cache_salt": "b"},
    "adapter a": {"lora_name": "a"},
    "adapter b": {"lora_name": "b"},
    "input a": {"encoder": b"a"},
    "input b": {"encoder": b"b"},
    "image a": {"mm_items": [MMItem(0, 4, b"a")]},
    "image b": {"mm_items": [MMItem(0, 4, b"b")]},
    "image without a name": {"mm_items": [MMItem(0, 4, b"")]},
    "a shorter image": {"mm_items": [MMItem(0, 3, b"a")]},
    "the image later": {"mm_items": [MMItem(1, 4, b"a")]},
    "two images": {"mm_items": [MMItem(0, 2, b"a"), MMItem(2, 4, b"a")]},
    # Values that are one text if they are put after each other.
    "tenant a, salt bc": {"tenant": "a", "cache_salt": "bc"},
    "tenant ab, salt c": {"tenant": "ab", "cache_salt": "c"},
    "salt a, adapter bc": {"cache_salt": "a", "lora_name": "bc"},
    "salt ab, adapter c": {"cache_salt": "ab", "lora_name": "c"},
    "tenant a, adapter a": {"tenant": "a", "lora_name": "a"},
    "tenant a, salt a": {"tenant": "a", "cache_salt": "a"},
    "salt a, adapter a": {"cache_salt": "a", "lora_name": "a"},
    "salt a, image a": {"cache_salt": "a", "mm_items": [MMItem(0, 4, b"a")]},
    # Texts that look alike, or like one cut short.
    "salt not ascii": {"cache_salt": "é"},
    "salt decomposed": {"cache_salt": "e\u0301"},
    "salt zero": {"cache_salt": "\0"},
    "salt a zero": {"cache_salt": "a\0"},
    "salt long": {"cache_salt": "a" * 300},
    "tenant long": {"tenant": "a" * 300},
}
