"""Without arguments the server binds to port 8473; with --port to that one."""

import runpy
import socketserver
import sys

sys.path.insert(0, sys.argv[1])
bound = []


def bind(server):
    bound.append(server.server_address[1])
    raise SystemExit(0)


socketserver.TCPServer.server_bind = bind


def port_of(*arguments):
    bound.clear()
    sys.argv[:] = ["lotse", *arguments]
    for name in [name for name in sys.modules if name.split(".")[0] == "lotse"]:
        del sys.modules[name]
    try:
        runpy.run_module("lotse", run_name="__main__", alter_sys=True)
    except SystemExit:
        pass
    assert len(bound) == 1, f"the server was bound {len(bound)} times with {arguments}"
    return bound[0]


import http.server  # noqa: E402

http.server.HTTPServer.server_bind = bind
default = port_of()
assert default == 8473, f"the default is {default}"
assert port_of("--port", "9123") == 9123
