# The controller's image: one static binary on a distroless base, as a user without a name or rights.
#
#   docker build --tag ordereddeployment/ordered-controller-manager:0.1.0 .
#
# The base has no shell, no package manager and no C library; certificates and /etc/passwd are in it. Each platform is
# built natively (or under emulation): nothing is cross-compiled.

ARG RUST_VERSION=1.95.0
ARG RUST=rust:${RUST_VERSION}-slim-bookworm
# A distroless static image, such as static-debian12:nonroot, from the registry that you trust: --build-arg BASE=…
# `cargo xtask release image` sets both images, with digests.
ARG BASE=scratch

FROM ${RUST} AS build
ARG TARGETPLATFORM
ARG RUST_VERSION
# Else rustup goes by rust-toolchain.toml, and fetches whatever is stable on the day.
ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}
WORKDIR /source
COPY . .
# `crt-static` links the C library in. With an explicit --target the flag does not reach build scripts and procedural
# macros, which cannot be static. The last line makes sure that nothing is left to be loaded at run time, and that it runs.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,id=target-${TARGETPLATFORM} \
    set -eu; \
    target="$(uname -m)-unknown-linux-gnu"; \
    RUSTFLAGS="-C target-feature=+crt-static" \
      cargo build --release --locked --package ordereddeployment-controller --target "$target"; \
    cp "target/$target/release/ordered-controller-manager" /ordered-controller-manager; \
    if readelf --dynamic /ordered-controller-manager | grep NEEDED; then exit 1; fi; \
    /ordered-controller-manager --version

FROM ${BASE}
LABEL org.opencontainers.image.title="ordered-controller-manager" \
      org.opencontainers.image.description="Deployments in which you choose which pods are deleted first" \
      org.opencontainers.image.source="https://github.com/ordereddeployment/ordereddeployment" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /ordered-controller-manager /ordered-controller-manager
# Less fragmentation of the heap, which long lists and answers cause: see docs/operations.md, "Memory".
ENV MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=65536 \
    MALLOC_TRIM_THRESHOLD_=131072
# A number: a pod with runAsNonRoot cannot be checked by name.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/ordered-controller-manager"]
