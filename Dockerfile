# The daemon in a container: `docker build -t tenex .`; config/compose.yaml says how it is run.
#
# Keys, settings, conversations and workspace are in the one volume, /data:
#
#   docker run --rm -it -v tenex-data:/data tenex init --relay wss://relay.example.com
#   docker run -d --init --stop-timeout 30 -v tenex-data:/data --name tenex tenex
#   docker exec tenex tenex status
#
# Commands of agents: bubblewrap is in the image, but an engine's default profile forbids what it needs, so `shell` and
# `check` are off in here, as the probe at start finds and logs. config/compose.yaml says how to permit it. Do not set
# tools.shell.sandbox = "none" instead: the same user could then read the keys in /data.

ARG PYTHON=3.12

# ---- build: compilers and pip may be here, nothing of it is in the image but /opt/tenex
FROM python:${PYTHON}-slim AS build

# Models of these vendors beside those that speak OpenAI's protocol; `otel` adds traces, `relay` the embedded relay.
ARG EXTRAS=anthropic,google

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY config/tenex.example.toml config/
COPY config/agents config/agents
COPY config/workflows config/workflows
COPY prompts prompts
COPY tenex tenex
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/tenex \
 && python -m pip --python /opt/tenex/bin/python install --no-cache-dir --no-compile "$(ls /wheels/tenexd-*.whl)[${EXTRAS}]" \
 && /opt/tenex/bin/python -m compileall -q /opt/tenex/lib

# ---- the image
FROM python:${PYTHON}-slim

# git for checkpoints of the workspace, bubblewrap for hosts that permit it
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git bubblewrap \
 && rm -rf /var/lib/apt/lists/*

# a fixed number, so that a folder of the host can be made for it: chown 10001:10001. /keys is for several daemons that
# share a database (config/compose.postgres.yaml)
RUN groupadd --gid 10001 tenex \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin tenex \
 && install -d -o tenex -g tenex -m 700 /data /keys

COPY --from=build /opt/tenex /opt/tenex
ENV PATH=/opt/tenex/bin:$PATH \
    TENEX_DATA=/data

USER 10001:10001
WORKDIR /data
VOLUME /data

# Stops in stages within shutdown.deadline (8 s); an engine that waits for 10 s only is close to that.
STOPSIGNAL SIGTERM
# 0 where the daemon answers; relays that are away are no fault a new container would mend.
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s --retries=3 CMD ["tenex", "status"]

ENTRYPOINT ["tenex"]
CMD ["run"]
