# Ebbtide and the Kafka releases of its catalogue, for nightly.yaml beside this file. Built from the checkout:
#
#   docker build -f compose/nightly.Dockerfile -t ebbtide/nightly .
#
# BASE      the base image: any image with apt and Python 3.11 or newer to install
# RELEASES  the Kafka releases that the scenarios name
ARG BASE=debian:bookworm-slim
FROM ${BASE}

LABEL org.opencontainers.image.title="Ebbtide with its catalogue of scenarios" \
      org.opencontainers.image.licenses="Apache-2.0"

WORKDIR /opt/ebbtide
COPY . .
ARG RELEASES="3.4.1 3.5.2 3.9.1 4.3.1"
RUN tools/bootstrap ${RELEASES}

ENV PATH=/opt/ebbtide/.venv/bin:$PATH
VOLUME /store
ENTRYPOINT ["compose/run-nightly"]
CMD ["--budget", "2h"]
