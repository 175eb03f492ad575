#!/bin/sh
# A broker command for `scenario run --setup attach --broker-command THIS`: brokers on 127.0.0.1 of this machine.
#
#   example-brokers.sh add|start|stop|kill|pause|resume NAME
#
# Only what `add` started is started again or ended: any other NAME is refused. A broker's process id, data and log are
# in NAME below $EXAMPLE_BROKERS_DIR, which is `brokers` in the run's directory where nothing else is set: the log stays
# with the evidence, and the data goes as that of every other run does.
set -eu

fail() { echo "$0: $*" >&2; exit 1; }

[ $# -eq 2 ] || fail "expected add|start|stop|kill|pause|resume NAME, got $# arguments"
verb=$1 name=$2
case $name in *[!a-z0-9-]* | '') fail "expected a NAME of letters, digits and -, got '$name'" ;; esac
dir=${EXAMPLE_BROKERS_DIR:-${SCENARIO_RUN_DIR:-$PWD}/brokers}
home=$dir/$name
ister=${SCENARIO_ISTER_BIN:-ister}
# A setting of the caller's environment would reach the broker.
unset $(env | sed -n 's/^\(ISTER_[A-Z_]*\)=.*/\1/p') 2>/dev/null || true

# runs: the process is there and is the broker of this directory, not another that got its id.
runs() {
	[ -s "$home/pid" ] || return 1
	pid=$(cat "$home/pid")
	kill -0 "$pid" 2>/dev/null || return 1
	line=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) || line=$(ps -o args= -p "$pid" 2>/dev/null) || return 1
	case $line in *"$home/data"*) return 0 ;; *) return 1 ;; esac
}

# launch PORT...: starts the broker and waits until it says that it serves, or has ended; its exit status is in $ended.
launch() {
	command -v "$ister" >/dev/null || fail "$ister is no command: put ister on PATH, or give --ister-bin"
	mark=$(wc -c <"$home/log" 2>/dev/null || echo 0)
	"$ister" broker --join --data-dir "$home/data" --broker-addr "127.0.0.1:$1" --admin-addr "127.0.0.1:$2" \
		--raft-addr "127.0.0.1:$3" --prom-exporter "127.0.0.1:$4" >>"$home/log" 2>&1 </dev/null &
	pid=$! ended=''
	echo "$pid" >"$home/pid"
	tries=0
	until tail -c "+$((mark + 1))" "$home/log" | grep -q 'ister node started'; do
		if ! kill -0 "$pid" 2>/dev/null; then
			ended=0
			wait "$pid" || ended=$?
			return 0
		fi
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || fail "expected 'ister node started' in $home/log within 30 s, got: $(tail -n 1 "$home/log")"
		sleep 0.1
	done
}

# signal NAME SECONDS: ends with status 1 when the broker still runs after so long.
signal() {
	kill -s "$1" "$pid" 2>/dev/null || return 0
	tries=0
	while runs; do
		tries=$((tries + 1))
		[ "$tries" -le "$(($2 * 10))" ] || return 1
		sleep 0.1
	done
}

[ "$verb" = add ] || [ -d "$home" ] || [ "$verb" = stop ] || fail "$name is not a broker that this command started: it has no $home"
case $verb in
add)
	[ ! -e "$home" ] || fail "$name is there already: $home"
	mkdir -p "$home"
	port=$((20000 + $$ % 9000))
	for try in 1 2 3 4 5 6 7 8 9 10; do
		launch "$port" "$((port + 1))" "$((port + 2))" "$((port + 3))"
		[ -n "$ended" ] || break
		[ "$ended" -eq 13 ] || fail "the broker ended with $ended: $(tail -n 1 "$home/log")" # 13: a port is in use
		port=$((port + 101))
	done
	[ -z "$ended" ] || fail "found no free ports in 10 tries; the last one: $(tail -n 1 "$home/log")"
	echo "$port" >"$home/port"
	echo "{\"admin\": \"127.0.0.1:$((port + 1))\", \"log\": \"$home/log\"}"
	;;
start)
	! runs || fail "$name runs already, as process $pid"
	[ -s "$home/port" ] || fail "$name was never up: $home/log"
	port=$(cat "$home/port")
	launch "$port" "$((port + 1))" "$((port + 2))" "$((port + 3))"
	if [ -n "$ended" ]; then echo "{\"exit_code\": $ended}"; else echo '{}'; fi
	;;
stop)
	if runs; then
		kill -s CONT "$pid"
		signal TERM "${SCENARIO_GRACE_SECONDS:-20}" || signal KILL 5 || fail "$name, process $pid, does not end"
	fi
	;;
kill)
	runs || fail "$name does not run"
	signal KILL 5 || fail "$name, process $pid, does not end"
	;;
pause | resume)
	runs || fail "$name does not run"
	if [ "$verb" = pause ]; then kill -s STOP "$pid"; else kill -s CONT "$pid"; fi
	;;
*) fail "expected add, start, stop, kill, pause or resume, got '$verb'" ;;
esac
