"""An empty page of Dash with one small chart: what no page of these libraries can be faster than.

`page_render.py` starts it. It prints its port once it listens.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import socket
from typing import Any, cast

import dash_ag_grid as dag
import dash_mantine_components as dmc
import uvicorn
from dash import Dash, Input, Output, dcc, html
from fastapi import FastAPI
from starlette.middleware import Middleware

from longpole_dashboards.compressed import CompressedFiles

# Imported so that its scripts are on the page.
_LIBRARIES = (dag.AgGrid,)


def main() -> None:
    """Serve it."""
    api = FastAPI()
    app = Dash("empty_page", server=cast("Any", api), serve_locally=True, assets_folder="none")
    api.user_middleware.append(Middleware(CompressedFiles))
    chart = dcc.Graph(id="chart", figure={"data": [{"type": "bar", "y": [1, 2, 3]}], "layout": {}})
    app.layout = dmc.MantineProvider([dcc.Location(id="url"), html.Div(id="page")])

    @app.callback(Output("page", "children"), Input("url", "pathname"))
    async def show(_path: str) -> dcc.Graph:
        return chart

    app._setup_server()  # noqa: SLF001 - on FastAPI only the page `/` would do it  # pyright: ignore[reportPrivateUsage]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(api, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
