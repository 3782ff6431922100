"""Where another package is not there, what needs it says which, and of which version."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "package", "said"),
    [
        ("integrations.vllm", "vllm", "supported: vllm 0.33"),
        ("integrations.sglang", "sglang", "supported: sglang 0.5.23"),
        ("integrations.lmcache", "lmcache", "supported: lmcache 0.5.6"),
        ("integrations.transformers", "transformers", "supported: transformers 5.16, 5.17"),
        ("pages.cupy", "cupy", r"pip install 'kvframe\[cuda13\]', or 'kvframe\[cuda12\]'"),
        ("pages.swap", "cupy", r"pip install 'kvframe\[cuda13\]', or 'kvframe\[cuda12\]'"),
    ],
)
def test_it_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str, said: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for importing in (module, "pages.cupy"):
        monkeypatch.delitem(sys.modules, f"kvframe.{importing}", raising=False)
    with pytest.raises(ImportError, match=said):
        import_module(f"kvframe.{module}")
