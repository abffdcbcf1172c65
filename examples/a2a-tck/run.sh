#!/bin/sh
# Runs the A2A compatibility kit against a sayso of its own: run.sh KIT, the folder of the kit's checkout,
# in a Python environment that has what the kit needs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kit=$1
shift
work=$(mktemp -d)
cp "$here/agent.yaml" "$here/sayso.yaml" "$work"
python3 - "$here/model.yaml" "$work/model.yaml" <<'PY'
import sys
script = open(sys.argv[1]).read().replace("content: LARGE", "content: " + "x" * 300 * 1024)
open(sys.argv[2], "w").write(script)
PY
export SAYSO_DATA="$work/data"
export SAYSO_SERVER=http://127.0.0.1:7450
sayso up --listen 127.0.0.1:7450 --config "$work/sayso.yaml" > "$work/log" 2>&1 &
server=$!
trap 'kill $server' EXIT
until curl -sf "$SAYSO_SERVER/readyz" > /dev/null; do kill -0 $server; sleep 0.1; done
SAYSO_TOKEN=$(cat "$work/data/admin.token")
export SAYSO_TOKEN
sayso deploy "$work/agent.yaml"
SAYSO_TOKEN=$(sayso token create --name tck --scope submit | head -n 1)
cd "$kit"
PYTHONPATH="$here:$kit" PYTEST_ADDOPTS="-p sayso_token" python3 run_tck.py --sut-host "$SAYSO_SERVER" "$@"
