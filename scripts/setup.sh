#!/bin/sh
# Makes .venv with exactly the packages of requirements.lock, and the project itself in editable form.
set -eu
cd "$(dirname "$0")/.."

fits='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'

find_python() {
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        if "$candidate" -c "$fits" 2> /dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Watersmeet needs Python 3.11 or later with its venv module: install it" \
        "(on Debian: apt-get install python3-venv) or set PYTHON to its path, then run make again." >&2
    return 1
}

if ! .venv/bin/python -c "$fits" 2> /dev/null; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version) ..."
    "$python" -m venv --clear .venv
fi

echo "Installing the locked packages (a minute or two, the first time) ..."
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install -qq --require-hashes -r requirements.lock
.venv/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
echo "Ready: .venv/bin/watersmeet"
