#!/bin/sh
# Writes requirements.lock: exact versions and hashes for every supported Python, from pyproject.toml.
set -eu
cd "$(dirname "$0")/.."

tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
.venv/bin/python -m venv "$tool"
"$tool/bin/pip" install -qq uv
"$tool/bin/uv" pip compile -q --upgrade --universal --generate-hashes --no-config --extra lab --group dev \
    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
echo "Wrote requirements.lock"
