# An ordinary image, for a first try or a registry of your own:  docker build --tag maar .
# Releases have the one of deploy/Dockerfile, which is built offline, reproducibly and without an installer: docs/image.md.

# A Python 3.11 or later with the module `venv`.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /in
COPY requirements.txt requirements-dev.txt ./
# Everything that is downloaded has a hash: the installer, what builds the wheel, the dependencies, the driver for
# PostgreSQL. Only a pip as new as that of the list finds hashes in constraints.
RUN python3 -m venv /opt/builder \
 && python3 -m venv --without-pip /opt/maar \
 && awk '/^[^ #]/ {mine = /^pip==/} mine' requirements-dev.txt > pip.txt \
 && /opt/builder/bin/pip install --no-cache-dir --require-hashes --requirement pip.txt \
 && /opt/builder/bin/pip install --no-cache-dir --require-hashes --constraint requirements-dev.txt hatchling \
 && /opt/builder/bin/pip --python /opt/maar install --no-cache-dir --require-hashes \
    --constraint requirements-dev.txt --requirement requirements.txt psycopg psycopg-binary
COPY . .
RUN /opt/builder/bin/python -m hatchling build --target wheel --directory /opt/wheel \
 && /opt/builder/bin/pip --python /opt/maar install --no-index --no-deps /opt/wheel/*.whl

FROM ${BASE}
COPY --from=build /opt/maar /opt/maar
ENV PATH=/opt/maar/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LANG=C.UTF-8 \
    HOME=/tmp
# A number, so that `runAsNonRoot` can be checked.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["maar"]
CMD ["run"]
