"""A server for `caddy llm-cache lingua --server`, with the original library.

    pip install llmlingua
    python lingua_server.py [--model NAME] [--device cuda|mps|cpu] [--port 8765]

It speaks the protocol of docs/guides/lingua.md, to this machine only.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from llmlingua import PromptCompressor

LONGEST = 16 << 20
# No word holds either: the tokenizers drop control characters.
BETWEEN, BEHIND = "\x1e", "\x1f"


def best_device():
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def words_of(labeled):
    pairs = (p.rsplit(BEHIND, 1) for p in labeled.split(BETWEEN))
    return [[p[0], int(p[1])] for p in pairs if len(p) == 2]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/health":
            return self.reply(404, {"error": "not found"})
        self.reply(200, {"device": self.server.device, "model": self.server.model})

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > LONGEST:
            self.close_connection = True
            return self.reply(413, {"error": "too long"})
        body = self.rfile.read(length)
        if self.path != "/compress":
            return self.reply(404, {"error": "not found"})
        try:
            asked = json.loads(body)
            text, rate = str(asked["text"]), float(asked.get("rate", 0.5))
        except (KeyError, TypeError, ValueError):
            return self.reply(400, {"error": "a text and a rate are needed"})
        with self.server.turn:  # one text at a time
            got = self.server.compressor.compress_prompt(
                [text], rate=rate, return_word_label=True, word_sep=BETWEEN, label_sep=BEHIND
            )
        self.reply(
            200,
            {
                "text": got["compressed_prompt"],
                "words": words_of(got["fn_labeled_original_prompt"]),
                "before": got["origin_tokens"],
                "after": got["compressed_tokens"],
            },
        )

    def log_message(self, *_):
        pass  # texts and their sizes are nobody's business


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank")
    p.add_argument("--device", choices=["cuda", "mps", "cpu"])
    p.add_argument("--port", type=int, default=8765)
    a = p.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", a.port), Handler)
    server.device, server.model, server.turn = a.device or best_device(), a.model, threading.Lock()
    server.compressor = PromptCompressor(a.model, device_map=server.device, use_llmlingua2=True)
    server.serve_forever()


main()
