# Server and CPU runner. BASE brings Python 3.11 or newer; what it already holds is not fetched again.
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE}
ARG EXTRAS=server,postgresql
WORKDIR /srv/judge
COPY scripts/install-system-packages scripts/
RUN scripts/install-system-packages --runtime
COPY pyproject.toml constraints.txt README.md contest.toml ./
COPY judge judge
COPY leaderboard leaderboard
COPY runners runners
COPY problems problems
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m pip install --quiet --constraint constraints.txt hatchling editables \
    && python3 -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable ".[${EXTRAS}]"
ENTRYPOINT ["judge"]
