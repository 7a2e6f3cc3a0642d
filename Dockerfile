# FOCUS in a container, for CPU or CUDA. CI does not build this file.
#   docker build --target cpu -t focus .    docker run --rm -it focus solve --task sudoku --example hard --watch
#   docker build --target cuda -t focus .   docker run --rm --gpus all -v "$PWD:/work" focus train mini-sudoku
FROM python:3.12-slim AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY focus focus
RUN useradd --create-home focus && install --directory --owner focus /work

FROM base AS cpu
RUN pip install --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    && pip install -c constraints.txt .
USER focus
WORKDIR /work
ENTRYPOINT ["focus"]

# The wheels of the package index bring CUDA; compiling the updater needs a C compiler.
FROM base AS cuda
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/* \
    && pip install torch==2.13.0 && pip install -c constraints.txt .
USER focus
WORKDIR /work
ENTRYPOINT ["focus"]
