"""What the pages let run in a browser: their own scripts, those in the page by their hashes."""

import base64
import hashlib
from collections.abc import Sequence

# Where the policy goes in the index page: before anything that it is about.
PLACE = "<!--script-policy-->"


def insert_policy(index: str, hashes: Sequence[str], own_scripts: Sequence[str]) -> str:
    """Return an index page with its content security policy.

    It stands in the page because proxies refuse headers of some kilobytes.

    Args:
        index: Holds `PLACE`.
        hashes: Of the scripts that Dash puts into the page, as CSP writes them.
        own_scripts: The others in the page, as they stand there.
    """
    policy = make_policy([*hashes, *map(hash_script, own_scripts)])
    return index.replace(PLACE, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')


def make_policy(hashes: Sequence[str]) -> str:
    """Return the policy.

    Plotly writes styles into the elements that it draws and shows pictures of its own making.
    """
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *hashes)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        )
    )


def hash_script(text: str) -> str:
    """Return the hash of a script as CSP writes it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
