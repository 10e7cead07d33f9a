"""The explorer: a web page on 127.0.0.1 to see the theory (needs the extra `sparsetoken[explorer]`)."""

from .server import create_app, make_server, warm_up

__all__ = ["create_app", "make_server", "warm_up"]
