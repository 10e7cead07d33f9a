"""The command `explore`: the web page on 127.0.0.1."""

from __future__ import annotations

import os
import sys
import threading
import warnings

from .._core.imports import require
from .options import THEORY, command, option
from .printing import echo


@command(THEORY)
def explore(
    port: int = option(8050, "Port on 127.0.0.1; 0 takes any free one.", "-p", min=0, max=65535),
    browser: bool = option(True, "Open the page in a browser.", "--browser/--no-browser"),
) -> None:
    """Open a web page to explore the theory. It is served on 127.0.0.1 and ends with Ctrl-C.

    Example: sparsetoken explore --port 8060 --no-browser
    """
    import webbrowser

    require("explorer")
    from ..explorer import make_server, warm_up

    warnings.simplefilter("ignore")  # the page shows warnings about its numbers itself
    try:
        server = make_server(port)
    except OSError as error:
        raise ValueError(f"port {port} on 127.0.0.1 is taken: give another with --port") from error
    address = f"http://127.0.0.1:{server.port}/"
    echo(f"explorer at {address} (Ctrl-C ends it)")
    later = threading.Timer(2.0, warm_up)  # seconds: the first page comes first, with an answer that is stored
    later.daemon = True
    later.start()
    if browser:
        webbrowser.open(address)
    server.serve_forever()  # returns on Ctrl-C
    echo("ended")
    sys.stdout.flush()
    # Threads may be inside compiled code, which does not survive the interpreter's own orderly end.
    os._exit(0)
