"""The server for the tablets."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers every request with the plan of the ground floor."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ground floor")


def serve(host, port):
    """Serve until the process ends."""
    with ThreadingHTTPServer((host, port), Handler) as server:
        print(f"http://{host}:{port}")
        server.serve_forever()
