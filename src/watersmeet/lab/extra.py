"""What only the lab needs, installed with the extra ``watersmeet[lab]``: a library for pictures and a peer.

Nothing that runs a query imports them, in the driver or in a worker. A command that needs one asks here before it
begins.
"""

from importlib.util import find_spec

from watersmeet.model.errors import WatersmeetError

INSTALL = "pip install 'watersmeet[lab]'"


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not loaded.

    >>> is_installed("msgspec"), is_installed("msgspecs")
    (True, False)
    """
    return find_spec(package) is not None


def require(package: str, what: str) -> None:
    """Refuse to begin without a package.

    >>> require("matplotlips", "the experiments draw pictures")
    Traceback (most recent call last):
    watersmeet.model.errors.WatersmeetError: ...the experiments draw pictures: matplotlips is not installed...
    """
    if not is_installed(package):
        raise WatersmeetError(what, why=f"{package} is not installed", how=f"run: {INSTALL}")
