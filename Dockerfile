# clora on Debian 12, with pocl for CPUs. A GPU's driver is another package (docs/installing.md).
#   docker build -t clora .
#   docker run --rm clora doctor
FROM debian:12 AS build
COPY . /clora
WORKDIR /clora
RUN tools/install_packages --build
RUN cmake --preset package && cmake --build --preset package --target package

FROM debian:12-slim
COPY --from=build /clora/build/package/clora_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/clora_*.deb pocl-opencl-icd \
    && rm -rf /tmp/clora_*.deb /var/lib/apt/lists/*
ENTRYPOINT ["clora"]
