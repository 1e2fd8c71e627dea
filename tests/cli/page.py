"""page.py: checks every page of attest report: well-formed, with no script but its own, loading nothing, accessible."""

import base64
import hashlib
import sys
import xml.etree.ElementTree as tree

XHTML = "{http://www.w3.org/1999/xhtml}"
# Elements that the page may have; anything else, such as external pictures, is an error.
KNOWN = set(
    "html head meta title style script body header main nav section h1 h2 h3 h4 p a ul li b code br span small table thead tbody "
    "tr th td div figure figcaption details summary dl dt dd svg path text rect line g use defs desc".split()
)


def contrast(left, right):
    """The contrast of two colours, as defined by WCAG 2."""

    def luminance(colour):
        colour = colour.lstrip("#")
        if len(colour) == 3:
            colour = "".join(2 * digit for digit in colour)
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(left), luminance(right)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def check_colours(style):
    """Every text colour of every theme against its background and the tint below tables."""
    themes = [part.split("}")[0] for part in style.split(":root{")[1:]]
    assert len(themes) == 3, "light, dark and print"
    for theme in themes:
        entries = [entry.strip() for entry in theme.split(";")]
        colours = dict(entry.split(":") for entry in entries if entry.startswith("--"))
        names = [f"--s{i}" for i in range(8)] + ["--fg", "--soft", "--faster", "--slower", "--same", "--ambiguous"]
        for name in names:
            for below in ("--bg", "--tint"):
                found = contrast(colours[name], colours[below])
                assert found >= 4.5, f"{name} on {below}: {found:.2f}"


def check(path):
    root = tree.parse(path).getroot()
    ids, wanted = set(), set()
    for element in root.iter():
        name = element.tag.removeprefix(XHTML)
        assert name in KNOWN, f"{path}: <{name}>"
        for key, value in element.attrib.items():
            assert not key.startswith("on"), f"{path}: <{name} {key}>"
            assert key not in ("src", "style", "srcset", "action"), f"{path}: <{name} {key}>"
            if key == "href":
                assert value.startswith("#"), f"{path}: {value} leads out of the page"
                wanted.add(value[1:])
            if key == "id":
                assert value not in ids, f"{path}: two elements are {value}"
                ids.add(value)
            if key == "aria-labelledby":
                wanted.update(value.split())
            assert "nan" not in value.lower().split() and "inf" not in value.lower().split(), f"{path}: {key}={value}"
        if name == "svg" and element.get("class") == "plot":
            assert element.get("role") == "img"
            children = [child.tag.removeprefix(XHTML) for child in element][:2]
            assert children == ["title", "desc"], f"{path}: a plot without a description"
            assert all(child.text for child in list(element)[:2])
    missing = wanted - ids
    assert not missing, f"{path}: nothing is {missing}"
    for figure in root.iter(f"{XHTML}figure"):
        waterfall = figure.find(f".//{XHTML}rect[@class='whole']") is not None  # its table is that of the next figure
        assert waterfall or figure.find(f".//{XHTML}table") is not None, f"{path}: {figure.get('id')}: a plot without a table"
    for section in root.iter(f"{XHTML}section"):
        assert len(section) > 1, f"{path}: {section.get('id')} is empty"
    style = root.find(f".//{XHTML}style").text
    policy = root.find(f".//{XHTML}meta[@http-equiv='Content-Security-Policy']").get("content")
    scripts = [element.text for element in root.iter(f"{XHTML}script")]
    assert len(scripts) == 1, f"{path}: {len(scripts)} scripts"
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, scripts[0])]
    assert policy.startswith("default-src 'none'; "), policy
    assert f"style-src 'sha256-{digests[0]}';" in policy and f"script-src 'sha256-{digests[1]}';" in policy, policy
    assert "url(" not in style and "@import" not in style and "<" not in style
    assert not any(word in scripts[0] for word in ("innerHTML", "eval", "fetch", "XMLHttpRequest", "http", ".style"))
    check_colours(style)


for page in sys.argv[1:]:
    check(page)
