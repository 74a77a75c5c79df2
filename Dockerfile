# The image that every learner's container runs: Python, torch, testbed, and your own algorithms.
# `testbed build` builds it, also behind proxies and offline; `docker build .` does where nothing is in the way.
# docs/image.md tells what the arguments do. The order is from what changes seldom to what changes often.

ARG BASE=python:3.11-slim
# Images made earlier from the stages of these names below take their places: `testbed build` keeps them.
ARG DEPENDENCIES=dependencies
ARG CORE=core
ARG REQUIREMENTS=requirements

# ---- packages: nothing of this stage is in the image but what the next one copies ------------------------------------
FROM ${BASE} AS packages
LABEL testbed.stage=packages
ARG DEPENDENCIES=dependencies
# cpu: a build of torch without CUDA; default: whatever the package index has; else a version, such as 2.13.0+cu130
ARG TORCH=cpu
# pip reads these two by itself
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY image/ /packages/image/
COPY pyproject.toml constraints.txt /packages/
RUN sh /packages/image/install-dependencies

FROM ${BASE} AS dependencies
LABEL testbed.stage=dependencies
# Base images come without the standard library's bytecode, or with one that is stale: every container would compile what
# it imports, again and again.
RUN python -m compileall -q --invalidation-mode unchecked-hash \
        -x '/(test|tests|idlelib|lib2to3|ensurepip|turtledemo|tkinter|site-packages|dist-packages)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=packages /opt/testbed/ /opt/testbed/

# ---- the fabric's compiled core, by the base's C compiler, or else by the package ziglang ----------------------------
FROM ${DEPENDENCIES} AS compiler
LABEL testbed.stage=packages
ARG CORE=core
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY image/ /packages/image/
COPY constraints.txt testbed/engines/fabric/native_plane/compile_core.py /packages/
COPY testbed/engines/fabric/native_plane/core/ /packages/core/
RUN sh /packages/image/compile-core

FROM ${DEPENDENCIES} AS core
LABEL testbed.stage=dependencies
COPY --from=compiler /added/ /opt/testbed/

# ---- packages that your algorithms need, if any: algorithms/requirements.txt -----------------------------------------
FROM ${CORE} AS more
LABEL testbed.stage=packages
ARG REQUIREMENTS=requirements
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY image/ /packages/image/
COPY constraints.txt algorithms/requirements.tx[t] /packages/algorithms/
RUN sh /packages/image/install-requirements

FROM ${CORE} AS requirements
LABEL testbed.stage=dependencies
COPY --from=more /added/ /opt/testbed/

# ---- testbed ---------------------------------------------------------------------------------------------------------
FROM ${REQUIREMENTS} AS testbed
LABEL testbed.stage=testbed \
      org.opencontainers.image.title="testbed learner" \
      org.opencontainers.image.description="One learner of a decentralized learning experiment" \
      org.opencontainers.image.licenses=MIT
ENV PATH=/opt/testbed/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    TESTBED_CODE=/opt/testbed/algorithms \
    TESTBED_DATA=/testbed/data
COPY testbed/ /opt/testbed/lib/testbed/
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/testbed/lib
WORKDIR /opt/testbed
# Signals reach the learner and zombies are reaped: its first process sees to that.
ENTRYPOINT ["python", "-m", "testbed.runtimes.containers"]
# Cheap, as there may be many containers: a learner's first process has the learner under it.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --retries=3 \
    CMD ["/bin/sh", "-c", "grep -q learner /proc/1/cmdline || exit 0; read -r it < /proc/1/task/1/children; [ -n \"$it\" ]"]

# ==== your algorithms: files below algorithms/ are found by their name, `gossip.py:Gossip` ============================
COPY algorithms/ /opt/testbed/algorithms/
# COPY examples/my-algorithm/fresh_gossip.py /opt/testbed/algorithms/
# ======================================================================================================================
