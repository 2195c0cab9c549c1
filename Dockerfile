# Tandem's wheels and the CPU build of PyTorch on Debian 12. The first stage compiles, with
# LLVM's packages from the LLVM project, and takes as long as scripts/build.sh; the second
# one has only the wheels. `docker build -t tandem .`, then `docker run -it tandem python3`.
FROM debian:12 AS build
RUN apt-get update -q && apt-get install -y -q --no-install-recommends \
    ca-certificates curl git python3 python3-venv python3-dev && \
  curl -fsSL https://apt.llvm.org/llvm-snapshot.gpg.key \
    -o /etc/apt/keyrings/llvm.asc && \
  echo "deb [signed-by=/etc/apt/keyrings/llvm.asc] http://apt.llvm.org/bookworm/ llvm-toolchain-bookworm-22 main" \
    > /etc/apt/sources.list.d/llvm.list
WORKDIR /tandem
COPY . .
RUN scripts/setup.sh && scripts/wheel.sh

FROM debian:12-slim
RUN apt-get update -q && apt-get install -y -q --no-install-recommends \
    python3 python3-venv && rm -rf /var/lib/apt/lists/*
COPY --from=build /tandem/build/wheels /wheels
RUN python3 -m venv /opt/tandem && /opt/tandem/bin/pip install --no-cache-dir \
    torch numpy --index-url https://download.pytorch.org/whl/cpu && \
  /opt/tandem/bin/pip install --no-cache-dir --no-index --find-links /wheels tandem-mlir
ENV PATH=/opt/tandem/bin:$PATH
CMD ["python3"]
