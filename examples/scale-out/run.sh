#!/usr/bin/env bash
# Starts Esker servers on loopback and runs ScaleOut against them: read/write splitting over a source and two replicas,
# then sharding over two servers.
#
#   examples/scale-out/run.sh [ESKER]     the binary; target/release/esker of this checkout unless given
#
# Needs a JDK (17), Maven and the mariadb client.
set -euo pipefail
cd "$(dirname "$0")"
esker=$(realpath "${1:-../../target/release/esker}")
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

free_port() {
  python3 -c 'import socket
for port in range(23000, 32000):
    with socket.socket() as s:
        try: s.bind(("127.0.0.1", port))
        except OSError: continue
    print(port); break'
}

sql() { mariadb --no-defaults --skip-ssl -h127.0.0.1 -P"$1" -uroot -N -e "$2"; }

# start ID: a server with this number; its port is in $port.
start() {
  port=$(free_port)
  env -i PATH="$PATH" "$esker" serve --datadir="$work/$1" --port="$port" --server-id="$1" --log-bin=ON \
    --gtid-mode=ON --enforce-gtid-consistency=ON >"$work/$1.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 300); do sql "$port" "DO 1" 2>/dev/null && return; sleep 0.1; done
  cat "$work/$1.log"; exit 1
}

accounts="CREATE DATABASE shop; CREATE USER app IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO app;
  CREATE USER repl IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO repl"

# example CONFIGURATION PORT...: runs the program.
example() {
  local file="$work/$1" n=0
  cp "$1" "$file"; shift
  for p in "$@"; do n=$((n + 1)); sed -i "s/@$n@/$p/" "$file"; done
  java -cp "target/classes:$(cat "$work/classpath")" ScaleOut "$file"
}

mvn -q -B compile dependency:build-classpath -Dmdep.outputFile="$work/classpath"

echo "== read/write splitting"
start 1; source=$port; sql "$source" "$accounts"
start 2; first=$port
start 3; second=$port
for replica in "$first" "$second"; do
  sql "$replica" "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = $source, SOURCE_USER = 'repl',
    SOURCE_PASSWORD = 'secret', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA;
    SET GLOBAL super_read_only = ON"
  for _ in $(seq 600); do [ -n "$(sql "$replica" "SHOW DATABASES LIKE 'shop'")" ] && break; sleep 0.1; done
done
example replicas.yaml "$source" "$first" "$second"

echo "== sharding"
start 4; one=$port; sql "$one" "$accounts"
start 5; two=$port; sql "$two" "$accounts"
example sharding.yaml "$one" "$two"
