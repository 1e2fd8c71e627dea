"""_flash_attn_install.py: makes `import flash_attn` find attest.flash_attn, and importlib.metadata its version."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Dict, Optional

VERSION = "2.8.3"  # the version whose functions these are
_SUBMODULES = ("flash_attn_interface", "bert_padding", "layers", "layers.rotary")

_replaced: Optional[Dict[str, ModuleType]] = None  # modules of an earlier flash_attn; None: not installed


class _Distribution(importlib.metadata.Distribution):
    """The metadata of flash-attn for importlib.metadata."""

    _TEXTS = {"METADATA": f"Metadata-Version: 2.1\nName: flash-attn\nVersion: {VERSION}\nSummary: attest.flash_attn\n",
              "top_level.txt": "flash_attn\n"}

    def read_text(self, filename):
        return self._TEXTS.get(filename)

    def locate_file(self, path):
        return Path(__file__).parent / path


class _Finder:
    """An importlib finder that knows one distribution and no modules: those are in sys.modules."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None

    @staticmethod
    def find_distributions(context=importlib.metadata.DistributionFinder.Context()):
        wanted = context.name
        return [_Distribution()] if wanted is None or wanted.replace("_", "-").lower() == "flash-attn" else []


def _module(name: str, is_package: bool) -> ModuleType:
    made = ModuleType(name, "attest.flash_attn in the place of the flash_attn package")
    made.__spec__ = ModuleSpec(name, None, origin=__file__, is_package=is_package)
    made.__file__ = __file__
    made.__version__ = VERSION
    if is_package:
        made.__path__ = []
    return made


def _tell_transformers(installed: bool) -> None:
    """Update transformers, which caches what it found at import."""
    utils = sys.modules.get("transformers.utils.import_utils")
    names = getattr(utils, "PACKAGE_DISTRIBUTION_MAPPING", None)
    if names is not None:
        found = ["flash-attn"] if installed else importlib.metadata.packages_distributions().get("flash_attn")
        names.pop("flash_attn", None)
        if found:
            names["flash_attn"] = found
    for name in ("is_flash_attn_2_available", "is_flash_attn_greater_or_equal"):
        forget = getattr(getattr(utils, name, None), "cache_clear", None)
        if forget:
            forget()


def install() -> None:
    """Let `import flash_attn` find the functions of attest.flash_attn, until uninstall().

    Also flash_attn.flash_attn_interface, flash_attn.bert_padding, apply_rotary_emb of flash_attn.layers.rotary, and
    version 2.8.3 for importlib.metadata. Code that has already imported names of another flash_attn keeps those: install
    first.
    """
    global _replaced
    if _replaced is not None:
        return
    functions, padding, turning = (importlib.import_module(f"{__package__}.{name}")
                                   for name in ("flash_attn", "_flash_attn_padding", "_flash_attn_rotary"))
    package = _module("flash_attn", True)
    interface, bert_padding, layers, rotary = (_module(f"flash_attn.{name}", name == "layers") for name in _SUBMODULES)
    for name in functions.__all__:
        if name.startswith("flash_attn_"):
            for module in (package, interface):
                setattr(module, name, getattr(functions, name))
    for name in ("index_first_axis", "index_put_first_axis", "pad_input", "unpad_input"):
        setattr(bert_padding, name, getattr(padding, name))
    rotary.apply_rotary_emb = rotary.apply_rotary_emb_func = turning.apply_rotary_emb
    package.flash_attn_interface, package.bert_padding, package.layers, layers.rotary = interface, bert_padding, layers, rotary
    _replaced = {name: module for name, module in sys.modules.items() if name == "flash_attn" or name.startswith("flash_attn.")}
    for name in _replaced:
        del sys.modules[name]
    for module in (package, interface, bert_padding, layers, rotary):
        sys.modules[module.__name__] = module
    sys.meta_path.insert(0, _Finder)
    importlib.invalidate_caches()
    _tell_transformers(True)


def uninstall() -> None:
    """Undo install()."""
    global _replaced
    if _replaced is None:
        return
    for name in ("flash_attn", *(f"flash_attn.{name}" for name in _SUBMODULES)):
        sys.modules.pop(name, None)
    sys.modules.update(_replaced)
    sys.meta_path.remove(_Finder)
    _replaced = None
    _tell_transformers(False)
