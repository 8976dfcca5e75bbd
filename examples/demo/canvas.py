"""Pictures and words on white, for the demo's sheets."""
import pathlib
import matplotlib
from PIL import Image, ImageDraw, ImageFont


class Canvas:
    """Takes pictures at their own size (or a whole fraction or multiple of it, so that squares stay squares) and words."""

    def __init__(self, width, height):
        self.image = Image.new("RGB", (width, height), "white")
        self.pen = ImageDraw.Draw(self.image)

    def picture(self, picture, x, y, side):
        """A picture or the path of one, in a thin frame."""
        if isinstance(picture, pathlib.Path):
            picture = Image.open(picture)
        smaller = side < picture.width
        self.image.paste(picture.convert("RGB").resize((side, side), Image.BOX if smaller else Image.NEAREST), (x, y))
        self.pen.rectangle((x - 1, y - 1, x + side, y + side), outline="#cccccc")

    def words(self, text, x, y, size=17, anchor="la"):
        font = ImageFont.truetype(str(pathlib.Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)
        self.pen.text((x, y), text, fill="black", font=font, anchor=anchor, align="center")

    def save(self, path):
        self.image.convert("P", palette=Image.ADAPTIVE, colors=256, dither=Image.NONE).save(path, optimize=True)
