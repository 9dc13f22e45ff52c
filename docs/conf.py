"""How Sphinx builds these pages: `make docs`.  Nothing is fetched from the network, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

import bsp

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "nonstop-bsp"
author = "the authors of nonstop-bsp"
copyright = f"2026, {author}"
release = version = bsp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "plain_docstrings",
    "reference_pages",
]

# Markdown
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["build"]

# docstrings
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
default_role = "code"
add_module_names = False
smartquotes = False  # --abstract has two hyphens

# look
html_theme = "furo"
html_title = "nonstop-bsp"
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_theme_options = {"navigation_with_keys": True}
