import base64
import io
import re

import numpy as np
from PIL import Image

from longpole_dashboards.report.drawings import draw_heat, draw_line


def test_a_line_breaks_where_nothing_was_reported() -> None:
    drawn = draw_line([1, 2, 3, 4, 5], [1.0, 2.0, None, 4.0, 5.0], " s", "seconds")
    assert drawn.count("<polyline") == 2
    assert draw_line([1], [None], "", "nothing") == ""


def test_a_picture_has_a_pixel_a_value_and_white_for_nothing() -> None:
    values = np.array([[0, 1, np.nan], [0.5, 0.5, 0.5]], dtype=np.float32)
    found = re.search(r"base64,([^\"]+)", draw_heat(values, 1.0, "GPUs"))
    assert found is not None
    picture = Image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGB")
    assert picture.size == (3, 2)
    assert picture.getpixel((2, 0)) == (255, 255, 255)
    assert picture.getpixel((0, 0)) != picture.getpixel((1, 0))
