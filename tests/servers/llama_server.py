"""Serves a model with llama.cpp's own HTTP server on 127.0.0.1 until it is told to stop.

Arguments: the model's file, the port, the size of the context and, if wanted, a chat template's file.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found, unused-ignore]  # installed in the session of these tests only


def main() -> None:
    model, port, context, *template = sys.argv[1:]
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {"smol"}
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.n_ctx = int(context)
    settings.n_parallel = 1
    # More threads than free cores make it many times slower.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.use_jinja = True
    settings.warmup = False
    settings.ui = False
    if template:
        settings.chat_template = Path(template[0]).read_text(encoding="utf-8")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    server = xllamacpp.Server(settings)
    stop.wait()
    del server
    # Its own threads do not end with the interpreter.
    os._exit(0)


main()
