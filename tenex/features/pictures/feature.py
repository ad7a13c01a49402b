"""What pictures of messages offer."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.core.ports import Pictures


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    def loader() -> "Pictures":
        from tenex.store.pictures import PICTURES, PictureFolder

        from .loader import PictureLoader

        return PictureLoader(PictureFolder(app.places.data / PICTURES))

    return Extension(pictures=loader)


PICTURES: Final = Feature(name="pictures", extend=_extend)
