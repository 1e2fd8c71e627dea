"""picture.py: checks a screenshot: its width, that it is not empty, and dark if the theme is.

    picture.py FILE WIDTH light|dark
"""

import struct
import sys
import zlib


def rows(path):
    """Width, and the rows of an 8-bit RGB or RGBA picture as bytes, with the bytes per pixel."""
    data = open(path, "rb").read()
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), "no PNG"
    at, packed, width, channels = 8, b"", 0, 0
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, _, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6), (depth, colour)
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    stride, raw = width * channels, zlib.decompress(packed)
    before = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        method, line = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        if method == 1:
            for i in range(channels, stride):
                line[i] = line[i] + line[i - channels] & 255
        elif method == 2:
            line = bytearray(a + b & 255 for a, b in zip(line, before))
        elif method == 3:
            for i in range(stride):
                left = line[i - channels] if i >= channels else 0
                line[i] = line[i] + (left + before[i]) // 2 & 255
        elif method == 4:
            for i in range(stride):
                left = line[i - channels] if i >= channels else 0
                above, corner = before[i], before[i - channels] if i >= channels else 0
                guess = left + above - corner
                by_left, by_above, by_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
                best = left if by_left <= by_above and by_left <= by_corner else above if by_above <= by_corner else corner
                line[i] = line[i] + best & 255
        before = line
        yield width, channels, bytes(line)


path, wanted, theme = sys.argv[1], int(sys.argv[2]), sys.argv[3]
colours, bright, count = set(), 0, 0
for width, channels, line in rows(path):
    assert width >= wanted, width
    for x in range(0, min(width, wanted) * channels, 4 * channels):
        pixel = line[x : x + 3]
        colours.add(pixel)
        bright += sum(pixel) > 384
        count += 1
assert len(colours) > 20, f"{len(colours)} colours"
share = bright / count
assert (share > 0.75) if theme == "light" else (share < 0.25), f"{share:.2f} of it is bright"
