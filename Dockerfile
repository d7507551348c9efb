# The gate, for Docker daemons that run on the host. See docs/container.md for how it is run.
#
#   docker build -t rediacc-gpu-gate .
#
# BASE needs Python 3.11 or newer with venv. PIP_NO_INDEX and PIP_FIND_LINKS are pip's own variables: a build
# without a network names a directory of wheels in the build context.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ARG PIP_NO_INDEX PIP_FIND_LINKS
WORKDIR /src
COPY . .
RUN python3 -m venv /opt/rediacc && /opt/rediacc/bin/pip install --no-cache-dir .

FROM ${BASE}
COPY --from=build /opt/rediacc /opt/rediacc
ENV PATH=/opt/rediacc/bin:$PATH PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["renet", "gate", "health"]
ENTRYPOINT ["renet", "gate", "serve"]
